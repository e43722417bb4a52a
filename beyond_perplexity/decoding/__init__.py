"""Decoding: drawing documents from a language model; a decoding has a row in `rows` and a file."""
