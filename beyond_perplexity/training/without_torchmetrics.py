"""Lightning, imported without torchmetrics: what trains imports `lightning` from here.

Lightning asks of objects whether they are metrics of torchmetrics, and keeps the values of
`self.log` in such metrics. A training here has none and logs nothing, yet would import all of
torchmetrics, and with it SciPy, matplotlib and transformers: half of the time that a training takes
to start (https://github.com/Lightning-AI/torchmetrics/issues/3457). So while Lightning is imported
a stand-in is found for torchmetrics, whose classes have no instances; afterwards `import
torchmetrics` imports the real one as ever. Whoever needs metrics in Lightning imports torchmetrics
first: then there is no stand-in.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType

_NAME = "torchmetrics"


class _Absent:
    def __init__(self, *_: object, **__: object) -> None:
        raise RuntimeError(
            "Lightning was imported without torchmetrics (training.without_torchmetrics) "
            "and can neither log nor keep metrics; import torchmetrics first"
        )


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (_Absent,), {})


@contextmanager
def stand_in() -> Iterator[None]:
    """Let imports find a stand-in for torchmetrics, unless it has been imported already."""
    if _NAME in sys.modules:
        yield
        return
    module = _StandIn(_NAME)
    module.__spec__ = ModuleSpec(_NAME, None)  # without one, `find_spec` raises an error
    sys.modules[_NAME] = module
    try:
        yield
    finally:
        del sys.modules[_NAME]


with stand_in():
    import lightning
    import lightning.pytorch.plugins.environments

__all__ = ["lightning"]
