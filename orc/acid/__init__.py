"""Hive's transactional (ACID) layout of Hive 3 and later: which files count, and which of their rows are there.

Works on plain values: listings come from the caller, and ORC files are read through `hindex.orc.OrcReader`.
"""
