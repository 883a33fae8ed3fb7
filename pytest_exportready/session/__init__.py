"""A pytest run with ``--export-ready``: collecting cases, judging them, progress and reports."""
