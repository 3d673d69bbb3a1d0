"""Whole SQL queries run by Spark, with tables read through their indexes where few rows match."""
