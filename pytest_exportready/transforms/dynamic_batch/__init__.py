"""A program exported at one batch size, made one for every batch size.

``worlds`` runs the graph at a stand-in batch that collides with no size in it and finds which baked sizes stem from the
batch; ``numbers`` finds Python numbers that do; ``rows`` holds the rewritten program against the original, row by row.
"""
