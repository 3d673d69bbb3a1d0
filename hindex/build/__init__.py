"""Building indexes: the Spark job, and what its executors run."""
