"""Estimate the perplexity of any latent language model from importance samples of yours."""

from beyond_perplexity.commands.estimate import main
from beyond_perplexity.errors import run_command

if __name__ == "__main__":
    run_command(main)
