"""Collectives that can be exported, on process groups that keep their names in saved programs."""
