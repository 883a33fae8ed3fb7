"""A package as a user has one: modules that import each other, and are not there where a reproducer is run."""
