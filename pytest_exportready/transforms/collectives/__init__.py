"""Collectives in a forward that can be exported, saved and run elsewhere with the right group behind each."""
