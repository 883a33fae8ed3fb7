"""Whether the ranks of one training hold and compute the same."""
