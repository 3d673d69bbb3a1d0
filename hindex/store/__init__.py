"""The store: manifests, commits and where index files lie."""
