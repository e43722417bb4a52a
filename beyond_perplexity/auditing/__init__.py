"""Whether a model, its tokenizer and what scores texts keep what a perplexity promises."""
