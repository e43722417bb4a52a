"""Tests of the workflow on a real SLURM."""
