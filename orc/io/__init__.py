"""Byte sources, metrics of reads, and the thread pool."""
