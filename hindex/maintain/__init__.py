"""Maintain indexes: refresh, coverage, checks, verification, vacuum, and size estimates."""
