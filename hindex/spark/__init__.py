"""All that knows Spark, besides the build job: sessions, the catalog, scans as DataFrames."""
