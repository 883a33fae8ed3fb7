"""Inspect exported programs."""
