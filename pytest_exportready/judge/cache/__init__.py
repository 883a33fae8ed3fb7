"""What was proved and compiled before, kept on disk: found again only for the same program, weights and machine."""
