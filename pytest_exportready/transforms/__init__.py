"""Public functions that change a program."""
