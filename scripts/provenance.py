"""Say where results came from, by their footers alone; or whether they are what was written."""

from beyond_perplexity.commands.provenance import main
from beyond_perplexity.errors import run_command

if __name__ == "__main__":
    run_command(main)
