"""Side-by-side timings against what a user would pick instead; each prints a ratio.

Products of NumPy keep to one thread: the seconds of a plain loop are those of all its threads, and
those of small matrices would wait for each other.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"
