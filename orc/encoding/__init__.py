"""Decoders of ORC's encodings, vectorised over runs and over independent groups of one buffer.

Every integer module has ``gather`` (some values of each group) and ``decode`` (all up to a count); see
:mod:`hindex.orc.encoding.buffers` for what buffers and groups are. No module here does any I/O.
"""
