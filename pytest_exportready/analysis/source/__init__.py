"""Read the Python source of ``forward`` without running it: value-dependent lines, written state, operators called."""
