"""Results and compiled programs of earlier runs on disk, for the same program, weights and machine only."""
