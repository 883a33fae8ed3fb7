"""What can be said about, done to and put back in a user's ``nn.Module``."""
