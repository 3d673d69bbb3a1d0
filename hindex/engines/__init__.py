"""Tables as PyArrow datasets, into which other engines push columns and filters."""
