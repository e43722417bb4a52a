"""Tokenize lines of text with the rules of Moses, from standard input to standard output."""

from beyond_perplexity.commands.tokenize import main
from beyond_perplexity.errors import run_command

if __name__ == "__main__":
    run_command(main)
