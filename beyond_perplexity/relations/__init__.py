"""How the measures of all papers go together, and what perplexity misses."""
