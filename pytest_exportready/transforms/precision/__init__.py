"""A program in lower precision: casts in its graph where autocast would cast."""
