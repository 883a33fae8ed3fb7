"""Nights compared: what is new, what changed its cause, what is slower, and who moved. Never needs torch."""
