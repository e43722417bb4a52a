"""Choose the engine for a model and a decoding, the precision and the batch size."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from beyond_perplexity.decoding import beam, sampling
from beyond_perplexity.decoding.engine import DrawnDocument, Engine
from beyond_perplexity.decoding.memory import fitting_rows
from beyond_perplexity.decoding.options import DecodingOptions
from beyond_perplexity.decoding.rows import decoding_row
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.contract import LanguageModel
from beyond_perplexity.models.registry import find_engines

MOST_ROWS = {"cpu": 128, "cuda": 1024}  # more are not faster
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def set_precision(model: LanguageModel, precision: str = "auto") -> str:
    """Put a model's weights into a precision for decoding; logits stay float32.

    Parameters
    ----------
    model : LanguageModel
        Changed in place.
    precision : str
        ``"float32"``, ``"bfloat16"``, or ``"auto"``: bfloat16 on a GPU, float32 elsewhere. On a
        CPU, bfloat16 is several times faster where the CPU has instructions for it, but its matrix
        products give out logits that are rounded to 8 bits, and CPUs round differently: so it is
        never chosen there unless asked for. A counted model has no weights to round.

    Returns
    -------
    str
        The precision that was taken. Samples and their log probabilities are those of the model so
        rounded.

    Raises
    ------
    InputError
        When there is no such precision.
    """
    if precision == "auto":
        precision = "bfloat16" if model.device.type == "cuda" else "float32"
    if precision not in PRECISIONS:
        raise InputError(f"precision: is {precision!r}, expected auto, float32 or bfloat16")
    model.to(PRECISIONS[precision])
    return precision


def make_engine(
    model: LanguageModel,
    options: DecodingOptions,
    seed: int,
    purpose: str,
    maximum_length: int,
    batch_size: int | str = "auto",
    memory: int | None = None,
) -> Engine:
    """Build the engine that draws documents from a model; see `engine.Engine`.

    A family may bring engines of its own; see `models.families.Family`.

    Parameters
    ----------
    model, options, seed, purpose, maximum_length
        See `engine.Engine`.
    batch_size : int or str
        Rows of a step, or ``"auto"``: as many as pay off and fit into the free memory. It does not
        change a text, but for rounding on a GPU.
    memory : int, optional
        Bytes that the process may hold on a CPU, for ``"auto"``; None: what the machine has free.

    Raises
    ------
    InputError
        When a number is not positive, or longer documents are wanted than the model can make.
    """
    own = find_engines(model.config["family"])
    _positive("maximum length", maximum_length)
    if batch_size != "auto":
        rows = _positive("batch size", batch_size)
    elif own:
        rows = own.DEFAULT_BATCH
    else:
        most = MOST_ROWS.get(model.device.type, MOST_ROWS["cpu"])
        length = min(maximum_length, model.context_length or maximum_length)
        rows = fitting_rows(model, length, most, memory)
    kind: type[Engine]
    if decoding_row(options.kind).beam:
        kind = own.BeamEngine if own else beam.BeamEngine
    else:
        kind = own.SamplingEngine if own else sampling.SamplingEngine
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
    memory: int | None = None,
) -> Iterator[DrawnDocument]:
    """Draw documents ``first`` to ``first + count - 1``, in the order of their ids.

    See `make_engine` for the parameters. The model is put into evaluation mode.
    """
    if first < 0 or count < 0:
        raise InputError(f"first, count: are {first} and {count}, expected no negative number")
    machine = make_engine(model.eval(), options, seed, purpose, maximum_length, batch_size, memory)
    return machine.documents(first, count)
