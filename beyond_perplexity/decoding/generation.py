"""Choose the engine for a model and a decoding, and the batch size."""

from __future__ import annotations

from collections.abc import Iterator

from beyond_perplexity.decoding import beam, engine
from beyond_perplexity.decoding.engine import Document, Engine
from beyond_perplexity.decoding.options import DecodingOptions
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import LanguageModel

AUTO_BATCH = {"cpu": 128, "cuda": 1024}


def make_engine(
    model: LanguageModel,
    options: DecodingOptions,
    seed: int,
    purpose: str,
    maximum_length: int,
    batch_size: int | str = "auto",
) -> Engine:
    """Build the engine that draws documents from a model; see `engine.Engine`.

    A family may bring engines of its own; see `LanguageModel.decoding_engines`.

    Parameters
    ----------
    model, options, seed, purpose, maximum_length
        See `engine.Engine`.
    batch_size : int or str
        Rows of a step, or ``"auto"``. It does not change a text.

    Raises
    ------
    InputError
        When a number is not positive, or longer documents are wanted than the model can make.
    """
    family = model.decoding_engines()
    default = family.DEFAULT_BATCH if family else AUTO_BATCH.get(model.device.type, 128)
    rows = default if batch_size == "auto" else _positive("batch size", batch_size)
    _positive("maximum length", maximum_length)
    kind: type[Engine]
    if options.kind == "beam":
        kind = family.BeamEngine if family else beam.BeamEngine
    else:
        kind = family.SamplingEngine if family else engine.SamplingEngine
    return kind(model, options, seed, purpose, maximum_length, rows)


def _positive(name: str, value: int | str) -> int:
    if not str(value).isdigit() or int(value) < 1:
        raise InputError(f"{name}: is {value!r}, expected a number above 0")
    return int(value)


def generate(
    model: LanguageModel,
    options: DecodingOptions,
    *,
    seed: int,
    purpose: str,
    first: int,
    count: int,
    maximum_length: int,
    batch_size: int | str = "auto",
) -> Iterator[Document]:
    """Draw documents ``first`` to ``first + count - 1``, in the order of their ids.

    See `make_engine` for the parameters. The model is put into evaluation mode.
    """
    if first < 0 or count < 0:
        raise InputError(f"first, count: are {first} and {count}, expected no negative number")
    machine = make_engine(model.eval(), options, seed, purpose, maximum_length, batch_size)
    return machine.documents(first, count)
