"""One check a file; see CONTRIBUTING.md for how to add one."""
