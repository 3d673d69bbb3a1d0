"""Tables: their data files, fingerprints, partitions and schemas."""
