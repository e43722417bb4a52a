"""Semantic evaluation: how near in meaning what a model predicts is to what is there."""
