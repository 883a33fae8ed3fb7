"""Find what a model does when it runs: reads, writes, random numbers, devices, hooks."""
