"""The columns of every kind of Parquet file, a module a stage: what a stage hands to the next."""
