"""What a session yielded, as JUnit XML, as an HTML page and as lines in the terminal. Never needs torch."""
