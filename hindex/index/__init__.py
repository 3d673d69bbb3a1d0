"""Indexes: the interface of index types, the index file, and the types."""
