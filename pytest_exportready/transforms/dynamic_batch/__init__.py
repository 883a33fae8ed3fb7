"""Make a program that was exported at one batch size dynamic in its batch.

``size_hypotheses`` runs the graph at a stand-in batch that divides no size in it, and finds which baked sizes come from
the batch. ``batch_constants`` finds Python numbers that do. ``batch_rows`` compares the rewritten program with the
original row by row.
"""
