"""Decoding: drawing documents from a model; a decoding has a row in `options` and a file."""
