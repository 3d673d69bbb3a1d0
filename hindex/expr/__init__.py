"""Evaluate Spark's expressions over Arrow arrays: types, coercion, casts, and functions."""
