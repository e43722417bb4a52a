"""Score a text file under a model: JSON with the perplexity in all its definitions."""

from beyond_perplexity.commands.perplexity import main
from beyond_perplexity.errors import run_command

if __name__ == "__main__":
    run_command(main)
