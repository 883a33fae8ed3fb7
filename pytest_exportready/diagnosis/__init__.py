"""One kind of export failure a file: an exception becomes a finding with its place and its fix."""
