"""Metadata of ORC files: types, file tail, stripe footers, statistics, bloom filters."""
