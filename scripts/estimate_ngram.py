"""Estimate an n-gram model from text by modified Kneser–Ney, and write it as an ARPA file."""

from beyond_perplexity.commands.estimate_ngram import main
from beyond_perplexity.errors import run_command

if __name__ == "__main__":
    run_command(main)
