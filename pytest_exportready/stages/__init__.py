"""One stage a file: what is done with a case after its training, in the order their ``after`` says."""
