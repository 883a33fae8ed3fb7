"""Compare nights: new failures, changed causes, slowdowns, and what they are due to. Does not import torch."""
