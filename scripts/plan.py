"""Measure small shards of every rule and model, and say what a whole configuration takes."""

from beyond_perplexity.commands.plan import main
from beyond_perplexity.errors import run_command

if __name__ == "__main__":
    run_command(main)
