"""The life of indexes: which partitions they cover, estimates, checks, clean-up, and what statements return."""
