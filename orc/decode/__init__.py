"""Decode streams of a stripe to Arrow arrays of the selected values."""
