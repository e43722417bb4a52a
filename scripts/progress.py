"""Say how far a run is: jobs by rule, done, under way and failed, and when it may end."""

from beyond_perplexity.commands.progress import main
from beyond_perplexity.errors import run_command

if __name__ == "__main__":
    run_command(main)
