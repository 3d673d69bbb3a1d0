"""The transactional (ACID) layout of Hive 3 and later: the valid files, and the live rows in them.

The package works on plain values: the caller passes listings, and ORC files are read by `hindex.orc.OrcReader`.
"""
