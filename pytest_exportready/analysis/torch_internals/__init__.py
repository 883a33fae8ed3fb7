"""Every private torch API in use, each behind one function that says why nothing public serves.

A torch without the API yields the documented unknown value (None, or an empty list), never an exception.
"""
