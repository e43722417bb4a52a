"""Corpora: readers of the real formats, text cleaning, Moses tokenization, splits."""
