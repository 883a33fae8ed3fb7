"""What the Python source of ``forward`` tells before it is traced: branches on tensor values, numbers taken from them,
state that is written, each with file and line. What is unknown stays unknown: nothing is told from a guess."""
