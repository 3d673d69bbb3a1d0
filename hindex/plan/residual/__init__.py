"""Residual predicates: what no domain of keys answers, typed as Spark types it and evaluated as Spark evaluates it."""
