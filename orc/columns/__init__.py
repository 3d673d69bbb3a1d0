"""Columns: from decompressed streams to Arrow arrays."""
