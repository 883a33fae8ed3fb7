"""Plan the legs of a night, collect their results, and report them on GitHub."""
