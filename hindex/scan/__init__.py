"""Scans: reading the rows of a table that a predicate keeps."""
