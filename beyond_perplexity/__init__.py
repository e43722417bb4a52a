"""Evaluate language models beyond one perplexity number.

What a notebook calls is here, a function each; a function is imported when it is first asked for.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beyond_perplexity.library.audit import audit
    from beyond_perplexity.library.compare import compare
    from beyond_perplexity.library.compare_perplexity import compare_perplexity
    from beyond_perplexity.library.contrast import contrast
    from beyond_perplexity.library.estimate import estimate
    from beyond_perplexity.library.perplexity import perplexity
    from beyond_perplexity.library.results_folder import load_results
    from beyond_perplexity.library.similarity import similarity
    from beyond_perplexity.library.thoughts import thoughts

__version__ = "0.1.0"

# MKL reads it with its first product. Without it a row's product depends on how many rows there are
# and where they lie in memory, on processors of AMD in any case.
os.environ.setdefault("MKL_CBWR", "AUTO")

# Public name -> its module in the library, where that has another name.
_MODULES = {"load_results": "results_folder"}

__all__ = [
    "__version__",
    "audit",
    "compare",
    "compare_perplexity",
    "contrast",
    "estimate",
    "load_results",
    "perplexity",
    "similarity",
    "thoughts",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.library.{_MODULES.get(name, name)}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
