"""Whole SQL queries run by Spark, with tables read through their indexes where that leaves few rows."""
