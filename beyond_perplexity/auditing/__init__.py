"""Whether a model, its tokenizer and what scores texts keep what a perplexity promises.

`subject` is what is audited; every other module is one check, and `rows` the table of all of them.
"""
