"""Read selected rows and columns of ORC files as Arrow batches."""
