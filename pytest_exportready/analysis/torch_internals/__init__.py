"""Private torch APIs, each behind one function that says why no public API serves.

In a torch without the API, the function returns the documented unknown value (None, or an empty list).
"""
