"""Custom operators (``torch.library``): what a program's own do when they run, and the registration to write."""
