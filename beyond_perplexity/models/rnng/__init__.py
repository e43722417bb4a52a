"""Recurrent neural network grammars: models, instances, proposals."""
