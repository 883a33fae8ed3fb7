"""The tabs of the HTML page, one file each, which ends in ``TABLE = PageTable(...)``."""
