"""Evaluate language models beyond one perplexity number.

What a notebook calls is here, a function each; a function is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beyond_perplexity.library.compare import compare
    from beyond_perplexity.library.compare_perplexity import compare_perplexity
    from beyond_perplexity.library.contrast import contrast
    from beyond_perplexity.library.estimate import estimate
    from beyond_perplexity.library.perplexity import perplexity
    from beyond_perplexity.library.similarity import similarity

__version__ = "0.1.0"

# Public name -> its module.
_PLACES = {
    "compare": "library.compare",
    "compare_perplexity": "library.compare_perplexity",
    "contrast": "library.contrast",
    "estimate": "library.estimate",
    "perplexity": "library.perplexity",
    "similarity": "library.similarity",
}

__all__ = [
    "__version__",
    "compare",
    "compare_perplexity",
    "contrast",
    "estimate",
    "perplexity",
    "similarity",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
