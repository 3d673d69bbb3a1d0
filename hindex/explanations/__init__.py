"""Explain a scan: the chosen indexes, the skipped data, and the reasons, as text, JSON, and HTML."""
