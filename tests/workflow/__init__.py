"""Tests that run Snakemake."""
