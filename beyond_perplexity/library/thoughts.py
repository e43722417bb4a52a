"""Thoughts of a reasoning model and what they give the right answers, from a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from beyond_perplexity.corpus.external import AnswerRecord, StrictProblems, answer_texts
from beyond_perplexity.errors import InputError, extras_named
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.importance.served_thoughts import ServedDialogue, draw_served
from beyond_perplexity.importance.thought_draws import (
    Beside,
    Question,
    ThoughtEnds,
    ThoughtOptions,
    Thoughts,
)
from beyond_perplexity.library import calls
from beyond_perplexity.library.call_options import DrawThoughtsOptions
from beyond_perplexity.library.result import Result
from beyond_perplexity.models.served.protocols import ASKED
from beyond_perplexity.models.served.server import ServedModel
from beyond_perplexity.schemas.draws import THOUGHTS
from beyond_perplexity.storage.provenance import run_record, value_hash
from beyond_perplexity.storage.shards import check_schema, read_record, write_shard

if TYPE_CHECKING:
    from beyond_perplexity.models.chat import Dialogue

_Found = Iterator[tuple[Thoughts, Beside]]
_Draw = Callable[[Sequence[Question]], _Found]

_KEY = "thoughts"  # of a shard's record: the hash of all that its numbers depend on
_CHOICES = ("samples", "proposal", "own_share", "most_tokens", "end_of_thought", "between")


def _unused(given: DrawThoughtsOptions) -> Iterator[calls.Unused]:
    if given.url is None:
        yield "without a url", ASKED
    else:
        yield "with a server", ("model", "threads", "device")
        yield "on prompts, which the server begins itself", ("beginning",)
    if given.proposal == "own":
        yield "with own thoughts", ("shown",)
    if given.proposal != "mixture":
        yield "without a mixture", ("own_share",)


@calls.library_function(DrawThoughtsOptions, _unused)
def thoughts(given: DrawThoughtsOptions) -> Result:
    """Draw thoughts of a reasoning model, and score the given answers after them.

    Returns
    -------
    Result
        ``table`` (schema ``thoughts``) has a row a thought, for `estimate(thoughts=...)`; the
        folder `out` has it in shards.

    Raises
    ------
    InputError
        When the model or a prompt cannot be used, or the folder has thoughts of other options.
    """
    if given.model is None and given.url is None:
        raise InputError("model: is missing; give one, or the url of a server that has one")
    if "{answer}" not in given.shown or "{prompt}" not in given.shown:
        raise InputError("shown: lacks {prompt} or {answer}; say where both stand")
    if not 0 < given.own_share < 1:
        raise InputError(f"own share: is {given.own_share:g}; give a share between 0 and 1")
    records, out = read_prompts(given), Path(given.out)
    out.mkdir(parents=True, exist_ok=True)
    with _served(given) if given.url else open_model(given) as (made, about, draw):
        record = thought_record(given, about)
        drawn = partial(draw_shard, made, draw, given)
        paths = list(_shards(records, given.shard_size, out, record, drawn))
    parts = []
    for path in paths:
        with check_schema(path, THOUGHTS) as file:
            parts.append(file.read())
    table = pa.concat_tables(parts)
    told = f"{len(table):,} thoughts of {len(set(table['instance'].to_pylist())):,} prompts"
    told += f" are in {out}; beyond-perplexity estimate --thoughts {out}/*.parquet"
    return Result("thoughts", table, text=told, summary={"files": [str(path) for path in paths]})


def read_prompts(given: DrawThoughtsOptions) -> Iterator[Any]:
    """Read the prompts with their answers, in order."""
    source = calls.answer_source(given.prompts, "prompts", (given.prompt, given.answer))
    return answer_texts(source, given.prompt, given.answer).read(StrictProblems(skip=False))


def thought_record(
    given: DrawThoughtsOptions,
    about: dict[str, Any],
    script: str = "beyond_perplexity/library/thoughts.py",
) -> dict[str, object]:
    """Start the record of shards, equal for all that may be reduced together."""
    options = {name: getattr(given, name) for name in (*_CHOICES, "seed", "shown")}
    return run_record(script, options | about.pop("source", {}), seed=given.seed, **about)


def _options(given: DrawThoughtsOptions) -> ThoughtOptions:
    return ThoughtOptions(given.proposal, given.own_share, given.most_tokens)  # type: ignore[arg-type]


@contextmanager
def open_model(given: DrawThoughtsOptions) -> Iterator[tuple[Dialogue, dict[str, Any], _Draw]]:
    """Open a model of a folder: how it is asked, what a record says of it, and what draws."""
    calls.check_path_or_name("model", given.model)
    with extras_named():
        from beyond_perplexity.importance import thoughts as drawing
        from beyond_perplexity.models.chat import open_dialogue
        from beyond_perplexity.models.registry import open_scorer
        from beyond_perplexity.vocabulary import EOS
    with calls.torch_kept(given.threads):
        with extras_named():
            model, opened = open_scorer(str(given.model), given.device)
        model.eval()
        dialogue = open_dialogue(opened, model, given.end_of_thought, given.between)
        ends = ThoughtEnds(dialogue.marker, np.unique([EOS, *dialogue.turn[:1]]))
        options = _options(given)
        most = max(options.most_tokens, len(dialogue.empty))

        def draw(questions: Sequence[Question]) -> _Found:
            for asked in tqdm(questions, unit="prompt", mininterval=1):
                read = drawing.read_question(dialogue.model, asked, most)
                samples = range(given.samples)
                found = drawing.draw_thoughts(read, ends, options, samples, given.seed)
                yield found, drawing.answer_beside(read, ends, most, dialogue.empty)

        about = {"device": str(model.device), "checkpoint": opened.weights}
        yield dialogue, {**about, "source": opened.source}, draw


@contextmanager
def _served(given: DrawThoughtsOptions) -> Iterator[tuple[ServedDialogue, dict[str, Any], _Draw]]:
    """Ask a server for its model; see `open_model`."""
    with ServedModel(given) as served:
        dialogue = ServedDialogue(served, given.end_of_thought, given.between)

        def draw(questions: Sequence[Question]) -> _Found:
            with tqdm(total=len(questions), unit="prompt", mininterval=1) as bar:
                how = _options(given), given.samples, given.seed, bar.update
                yield from draw_served(dialogue, questions, *how)

        yield dialogue, {"source": {"served": served.model, "end": served.after}}, draw


def _shards(
    records: Iterator[Any], size: int, out: Path, record: dict[str, object], drawn: Any
) -> Iterator[Path]:
    """Draw the shards that are not there yet, in the order of the prompts."""
    kept = number = 0
    for number, part in enumerate(iter(lambda: list(islice(records, size)), [])):
        path = out / f"{number:05d}.parquet"
        held = [record["options"], record["checkpoint_hash"], number * size]
        key = value_hash([*held, *([one.prompt, one.text] for one in part)])
        if path.exists():
            if read_record(path).get(_KEY) != key:
                raise InputError(
                    f"{path}: has thoughts of other prompts, options or another model; give "
                    "another folder, or remove it"
                )
            kept += 1
        else:
            write_shard(path, THOUGHTS, drawn(number * size, part), record | {_KEY: key})
        yield path
    if more := sorted(out.glob("[0-9]" * 5 + ".parquet"))[number + 1 :]:
        raise InputError(f"{more[0]}: is of more prompts than are given; give another folder")
    if kept:
        remark(f"note: {kept:,} shards were there already and are kept")


def draw_shard(
    dialogue: Dialogue | ServedDialogue,
    draw: _Draw,
    given: DrawThoughtsOptions,
    first: int,
    part: list[AnswerRecord],
) -> pa.Table:
    """Draw the thoughts of some prompts, of which the first has a number: schema ``thoughts``."""
    questions = []
    for instance, record in enumerate(part, start=first):
        answer, shown = dialogue.answer(record.place, record.text), np.empty(0, np.int64)
        if given.proposal != "own":
            text = given.shown.replace("{prompt}", record.prompt).replace("{answer}", record.text)
            shown = dialogue.ask(text)
        size = len(record.text.encode())
        questions.append(Question(instance, dialogue.ask(record.prompt), shown, answer, size))
    found = zip(questions, draw(questions), strict=True)
    return pa.concat_tables([THOUGHTS.empty_table(), *(_rows(asked, *one) for asked, one in found)])


def _rows(asked: Question, found: Thoughts, beside: Beside) -> pa.Table:
    rows = len(found.tokens)
    of_prompt = (asked.instance, None, len(asked.answer), asked.bytes)
    columns = [np.arange(rows) if value is None else np.full(rows, value) for value in of_prompt]
    columns += [found.log_p_answer, found.log_p_thought, found.log_q_thought, found.tokens]
    columns += [found.cut.astype(np.int64)]
    columns += [np.full(rows, value) for value in beside]
    return pa.table(columns, THOUGHTS)
