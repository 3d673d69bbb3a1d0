"""Indexes: the contract of index types, the index file, and the types themselves."""
