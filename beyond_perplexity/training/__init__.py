"""The training loop of every model."""
