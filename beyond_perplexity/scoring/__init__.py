"""Perplexity: scores of documents, and the definitions that they are summed up in."""
