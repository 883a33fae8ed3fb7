"""Looks, never judges: the user's source, the trained module, the exported program, what happens when they run."""
