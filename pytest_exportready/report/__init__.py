"""Reports of a session: JUnit XML, HTML pages, terminal lines. Does not import torch."""
