"""Whether the ranks of a training have the same state and compute the same outputs."""
