"""One column of the page a file: it ends in ``COLUMN = Column(...)`` and is found by its being there."""
