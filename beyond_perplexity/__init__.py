"""Evaluate language models beyond one perplexity number."""

__version__ = "0.1.0"
