"""Choose the engine for a model and a decoding, and the batch size."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Literal

from beyond_perplexity.decoding import beam, engine
from beyond_perplexity.decoding.engine import Document, Engine
from beyond_perplexity.decoding.options import DecodingOptions
from beyond_perplexity.models.contract import LanguageModel

AUTO_BATCH = {"cpu": 128, "cuda": 1024}


def make_engine(
    model: LanguageModel,
    options: DecodingOptions,
    seed: int,
    purpose: str,
    maximum_length: int,
    batch_size: int | Literal["auto"] = "auto",
) -> Engine:
    """Build the engine that draws documents from a model; see `engine.Engine`.

    A family may bring engines of its own: its class names their module in ``engine_module``, which
    has ``SamplingEngine``, ``BeamEngine`` and ``DEFAULT_BATCH``.

    Parameters
    ----------
    model, options, seed, purpose, maximum_length
        See `engine.Engine`.
    batch_size : int or "auto"
        Rows of a step. It does not change a text.
    """
    special = getattr(model, "engine_module", None)
    family = importlib.import_module(special) if special else None
    if batch_size == "auto":
        batch_size = family.DEFAULT_BATCH if family else AUTO_BATCH.get(model.device.type, 128)
    kind: type[Engine]
    if options.kind == "beam":
        kind = family.BeamEngine if family else beam.BeamEngine
    else:
        kind = family.SamplingEngine if family else engine.SamplingEngine
    return kind(model, options, seed, purpose, maximum_length, batch_size)


def generate(
    model: LanguageModel,
    options: DecodingOptions,
    *,
    seed: int,
    purpose: str,
    first: int,
    count: int,
    maximum_length: int,
    batch_size: int | Literal["auto"] = "auto",
) -> Iterator[Document]:
    """Draw documents ``first`` to ``first + count - 1``, in the order of their ids.

    See `make_engine` for the parameters. The model is put into evaluation mode.
    """
    machine = make_engine(model.eval(), options, seed, purpose, maximum_length, batch_size)
    return machine.documents(first, count)
