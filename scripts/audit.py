"""Find out whether a model, its tokenizer and the scoring of texts keep what they promise."""

from beyond_perplexity.commands.audit import main
from beyond_perplexity.errors import run_command

if __name__ == "__main__":
    run_command(main)
