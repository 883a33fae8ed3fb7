"""One tab of the page a file: it ends in ``TABLE = Table(...)`` and is found by its being there."""
