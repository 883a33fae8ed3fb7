"""The columns of the HTML page, one file each, which ends in ``COLUMN = Column(...)``."""
