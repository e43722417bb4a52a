"""The commands, ``python -m scripts.NAME``; here what must come before their own imports."""

import gc
import sys

from beyond_perplexity.errors import prepare_process

if sys.argv[0] == "-m":  # while Python looks for the command; not where a test imports it
    prepare_process()
    gc.disable()  # to look for garbage takes a third of the imports' time; see `job`
