"""The tables of checks (rows of ``checks.toml``) and of programs, what a check finds, and its
words."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, NamedTuple

from beyond_perplexity import __version__
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Rows
from beyond_perplexity.random_streams import stream
from beyond_perplexity.storage.accounts import NO_TOKEN, Account

if TYPE_CHECKING:
    from beyond_perplexity.auditing.rosetta import Printed, Speech

PRECISION_NAMES = ("float32", "bfloat16", "float16")
_HOME = "beyond_perplexity.auditing"


class Evidence(NamedTuple):
    """What a check measured: its largest deviation, in the unit of its row (NaN: a number was
    none), of how many things `compared`, and where that was."""

    worst: float
    compared: int
    detail: str


class Finding(NamedTuple):
    """What is said of a check."""

    check: str  # Its name
    sound: bool  # The deviation is within the tolerance
    worst: float  # worst, tolerance: In the unit of the check
    tolerance: float
    compared: int  # How many things were compared; 0: the check has nothing to look at here
    detail: str  # Where the worst was
    explanation: str  # What is promised, and what usually breaks it
    because: str = ""  # Another failed check that explains this one; empty: none does


class Check(NamedTuple):
    """What is known of a check."""

    reference: str  # ``module:function``
    tolerance: float  # The largest deviation that is no failed check
    unit: str  # Of the deviation
    explanation: str  # What is promised, and what usually breaks it
    # The tolerance is at least so many times the spacing of the model's numbers around 1 (2⁻²³ of
    # float32, 2⁻⁷ of bfloat16). 0: rounding is no excuse.
    rounding: float = 0.0
    needs: str = "model"  # What is tried
    # Checks that fail as well where this one does: they are no second fault
    implies: tuple[str, ...] = ()

    def allowed(self, spacing: float) -> float:
        """Return the largest deviation that is no failed check, given the spacing of numbers."""
        return max(self.tolerance, self.rounding * spacing)

    def judge(self, name: str, found: Evidence, spacing: float) -> Finding:
        """Hold what the check found against what is allowed; what is no number is not within."""
        most = self.allowed(spacing)
        return Finding(name, found.worst <= most, found.worst, most, *found[1:], self.explanation)


def _rows(kind: str) -> dict[str, Check]:
    """Return the rows of ``checks.toml`` of a kind."""
    held = tomllib.loads(Path(__file__).with_name("checks.toml").read_text(encoding="utf-8"))[kind]
    rows = {}
    for name, row in held.items():
        row["implies"] = tuple(row.get("implies", ()))
        rows[name] = Check(f"{_HOME}.{row.pop('check')}", **row)
    return rows


CHECKS = _rows("checks")
# What a server is asked for; see `auditing.served`.
SERVED_CHECKS = _rows("served")
# What tokenizers change most: case, accents, forms of letters, several scripts, bytes of four.
HARD_TEXTS = (
    "The CAT sat.",
    "caf\u00e9 na\u00efve",
    "cafe\u0301",
    "\ufb01ne \u00bd \u2460",
    "\u4e2d\u6587 \u0440\u0443\u0441\u0441\u043a\u0438\u0439",
    "\U0001f600 ok",
    'don\'t "quote" `tick` ... --',
    "<s> </s> <unk> <|endoftext|>",
)


def wanted_checks(names: Sequence[str] | None, table: Rows[Check]) -> dict[str, Check]:
    """Return the rows of some names, or all; for one that is none there is an `InputError`."""
    if unknown := sorted(set(names or ()) - set(table)):
        known = ", ".join(table)
        raise InputError(f"check: there is no {unknown[0]!r:.80}; the checks are: {known}")
    return {name: row for name, row in table.items() if names is None or name in names}


def with_causes(found: Sequence[Finding], table: Rows[Check]) -> list[Finding]:
    """Name for each failed check the first other one that explains it, unexplained by it."""
    failed = {one.check for one in found if not one.sound}

    def cause(name: str) -> str:
        for other, row in table.items():
            if other in failed and name in row.implies and other not in table[name].implies:
                return other
        return ""

    return [one if one.sound else one._replace(because=cause(one.check)) for one in found]


def describe_findings(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the lines of the checks, and what they come to."""
    for one in findings:
        verdict = "ok   " if one.sound else "ALARM"
        within = f"{one.worst:.3g} (at most {one.tolerance:.2g})"
        yield f"{verdict} {one.check:14} {within}: {one.detail}"
        if one.because:
            yield f"{'':6}follows from the failure of {one.because}"
        elif not one.sound:
            yield f"{'':6}{one.explanation}"
    failed_checks = [one.check for one in findings if not one.sound and not one.because]
    rest = sum(not one.sound for one in findings) - len(failed_checks)
    follow = f" ({rest} more follow from them)" if rest else ""
    done = f"no failed check in {len(findings)} checks"
    yield f"failed checks: {', '.join(failed_checks)}{follow}" if failed_checks else done


_TOLD = f"{_HOME}.rosetta"


class Program(NamedTuple):
    """What is known of a program."""

    reference: str  # ``module:function`` that gives its numbers
    version: str  # that the numbers were compared with
    reads_special: bool = False  # special tokens that a text says are tokens to it, not characters


class PrintedNumber(NamedTuple):
    """One number that a program of `PROGRAMS` would print, of how many `predictions` (NaN: it would
    refuse the text), and what makes it differ from others."""

    program: str
    name: str
    value: float
    predictions: int
    definition: str


PROGRAMS = {
    "beyond-perplexity": Program(f"{_TOLD}:translate_own", __version__),
    "lm-evaluation-harness": Program(f"{_TOLD}:translate_rolling", "0.4.13", reads_special=True),
    "stride recipe": Program(f"{_TOLD}:translate_stride", "transformers 5.23", reads_special=True),
    "evaluate": Program(f"{_TOLD}:translate_metric", "0.4.6", reads_special=True),
    "llama.cpp": Program(f"{_TOLD}:translate_chunks", "b11549"),
    "KenLM": Program(f"{_TOLD}:translate_query", "0.3.0"),
}


def describe_numbers(numbers: Sequence[PrintedNumber]) -> Iterator[str]:
    """Yield the lines of the numbers of programs."""
    for one in numbers:
        value = "none" if math.isnan(one.value) else f"{one.value:.6g}"
        yield f"{one.program}: {one.name} {value} ({one.predictions:,} predictions)"
        yield f"{'':6}{one.definition}"


def translate(speech: Speech, programs: Sequence[str] | None = None) -> list[PrintedNumber]:
    """Return the numbers that the programs, or some of them, would print."""
    numbers: list[PrintedNumber] = []
    for name, row in PROGRAMS.items():
        if programs is not None and name not in programs:
            continue
        function: Callable[[Speech], list[Printed]] = resolve_name(row.reference)
        cause = ""
        if speech.said and row.reads_special:
            cause = f"; the text says {speech.said}: a token to this program, characters to ours"
        for label, value, count, how in function(speech):
            numbers.append(PrintedNumber(name, label, value, count, how + cause))
    return numbers


CUT_AT = 1000  # characters of a document: enough for a window or two


def sample_texts(texts: Iterable[str], documents: int, seed: int) -> list[str]:
    """Draw documents by a reservoir, each with a character that is no white space as likely as any
    other, in the order of the stream, cut at the last blank within `CUT_AT`."""
    kept: dict[int, tuple[int, str]] = {}
    generator = stream(seed, "audit/sample")
    for number, text in enumerate(text for text in texts if text.strip()):
        slot = number if number < documents else int(generator.integers(number + 1))
        if slot < documents:
            held = text[:CUT_AT]
            kept[slot] = (number, text if held == text else held.rpartition(" ")[0] or held)
    if not kept:
        raise InputError("the text has no document to audit with; give one with some words")
    return [text for _, text in sorted(kept.values())]


def choose_texts(
    texts: Iterable[str], account: Account, documents: int, seed: int, *, whole: bool
) -> tuple[list[str], list[str] | None]:
    """Draw documents of a stream and, where the whole of it is wanted, hold that beside them."""
    held = list(texts) if whole else None
    sample = sample_texts(texts if held is None else held, documents, seed)
    if held is None:
        account.left_out["not drawn for the checks"] = account.used - len(sample)
    return sample, held


def filled_texts(batches: Iterable[list[str]], account: Account) -> Iterator[str]:
    """Stream the documents of batches; empty ones are left out."""
    for batch in batches:
        filled = [text for text in batch if text.strip()]
        account.left_out[NO_TOKEN] += len(batch) - len(filled)
        yield from filled
