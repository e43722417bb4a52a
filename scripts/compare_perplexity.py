"""Compare models by their scores of the same documents: bits per byte and their differences."""

from beyond_perplexity.commands.compare_perplexity import main
from beyond_perplexity.errors import run_command

if __name__ == "__main__":
    run_command(main)
