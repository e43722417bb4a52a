"""Whether a model, its tokenizer and what scores texts keep what a perplexity promises.

`subject` is what is audited; `checks` is the table of checks, `rosetta_programs` of programs.
"""
