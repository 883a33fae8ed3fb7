"""Read, copy, and restore a user's ``nn.Module``."""
