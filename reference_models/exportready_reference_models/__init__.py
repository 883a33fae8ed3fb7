"""Reference models: one a file, declared exactly as a user declares a case."""
