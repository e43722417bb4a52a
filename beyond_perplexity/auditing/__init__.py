"""Whether a model, its tokenizer and what scores texts keep what a perplexity promises.

`subject` is what is audited; `checks` has the tables of checks and of programs.
"""
