"""Evaluate language models beyond one perplexity number."""

from importlib.metadata import version

__version__ = version("beyond-perplexity")
