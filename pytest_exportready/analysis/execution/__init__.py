"""What a proof is made of: the reference, fresh inputs and sizes, and how far two answers may be apart."""
