"""The Python interface: connections, tables, indexes, scans, and conditions."""
