"""Messages of the ORC format and of hindex's own files: the ``.proto`` sources and the code made from them.

``make proto`` makes the code again after a change of a source; a test fails while the two differ.
"""

if __name__ != "hindex.proto":
    # with the repository root on sys.path every message would be registered twice, under two identities
    raise ImportError(f"this package is not {__name__!r}: import hindex.proto")
