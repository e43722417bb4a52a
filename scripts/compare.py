"""Compare two bodies of text in every statistical tendency. No model is needed."""

from beyond_perplexity.commands.compare import main
from beyond_perplexity.errors import run_command

if __name__ == "__main__":
    run_command(main)
