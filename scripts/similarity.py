"""How alike pairs of texts are, by an evaluator; no language model is needed."""

from beyond_perplexity.commands.similarity import main
from beyond_perplexity.errors import run_command

if __name__ == "__main__":
    run_command(main)
