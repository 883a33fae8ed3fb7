"""Functions on an ExportedProgram."""
