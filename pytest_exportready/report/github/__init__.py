"""What the workflows call: the legs of a night planned, gathered, and told to people on GitHub."""
