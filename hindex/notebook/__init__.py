"""The notebook magic `%hindex`."""
