"""Run modules and programs, vary their inputs, and compare their outputs."""
