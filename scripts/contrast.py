"""Score pairs of a good and a bad sentence under a model: accuracy and H_C of each phenomenon."""

from beyond_perplexity.commands.contrast import main
from beyond_perplexity.errors import run_command

if __name__ == "__main__":
    run_command(main)
