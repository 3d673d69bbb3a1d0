"""The store: manifests, commits and the locations of index files."""
