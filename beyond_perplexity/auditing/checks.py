"""The table of checks, what a check finds, and what is said of it in words.

A new check is a function of a `subject.Subject` that returns `Evidence`, and a row here; likewise a
program whose numbers would stand beside ours, a function of a `rosetta.Speech`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING, NamedTuple

from beyond_perplexity import __version__
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import Rows

if TYPE_CHECKING:
    from beyond_perplexity.auditing.rosetta import Printed, Speech

PRECISION_NAMES = ("float32", "bfloat16", "float16")
_HOME = "beyond_perplexity.auditing"
_COMPARED = ("future", "batch", "padding", "steps")
_Measured = tuple[str, float, str, float]  # The first fields of a `Check`
_SCORED = ("order", "likelihood", "denominators")


class Evidence(NamedTuple):
    """What a check measured: its largest deviation, in the unit of its row, and where that was.

    NaN: a number was none. `compared` tells how many things were compared.
    """

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
    # The tolerance is at least so many times the spacing of the model's numbers around 1 (2⁻²³ of
    # float32, 2⁻⁷ of bfloat16). 0: rounding is no excuse.
    rounding: float
    explanation: str  # What is promised, and what usually breaks it
    needs: str = "model"  # What is tried
    # Checks that fail as well where this one does: they are no second fault
    implies: tuple[str, ...] = ()


def _measured(function: str, tolerance: float, unit: str, rounding: float = 0.0) -> _Measured:
    return f"{_HOME}.{function}", tolerance, unit, rounding


CHECKS = {
    "numbers": Check(
        *_measured("probabilities:check_logits", 0.0, "numbers that are none"),
        "Logits are finite numbers or −∞, and no probability is above 1. Overflow in half "
        "precision, a mask of a whole row and damaged weights break it.",
        implies=(
            *("normalization", "continuations", "possible", "reserved", "repetition"),
            *_COMPARED,
            *_SCORED,
        ),
    ),
    "normalization": Check(
        *_measured("probabilities:check_normalization", 1e-4, "distance of the sum from 1", 8.0),
        "After every prefix the scores of all next tokens add up to 1. A softmax over the wrong "
        "axis, logits taken for log-probabilities and a candidate list that is cut break it.",
        implies=("continuations", *_SCORED),
    ),
    "continuations": Check(
        *_measured("probabilities:check_continuations", 1e-3, "distance of the share from 1", 16.0),
        "What may follow a prefix, its end included, has the prefix' probability together, from "
        "the empty text on. A length penalty and an end that is not scored break it.",
    ),
    "possible": Check(
        *_measured("probabilities:check_possible", 0.0, "models"),
        "Some text has a probability above 0. An end that cannot be (its logit masked, or never "
        "trained) leaves none to any: the perplexity of every text is infinite.",
    ),
    "reserved": Check(
        *_measured("probabilities:check_reserved", 1e-3, "probability"),
        "Ids that no text has (<s>, rows that fill a vocabulary up) have no probability; what they "
        "have, every text lacks.",
        implies=("continuations",),
    ),
    "future": Check(
        *_measured("predictions:check_future", 1e-4, "total variation or nats", 1.0),
        "What comes later changes no prediction. A missing causal mask, an encoder that reads both "
        "ways and statistics over a whole text break it.",
        implies=("continuations", "padding", "steps", *_SCORED),
    ),
    "alignment": Check(
        *_measured("predictions:check_alignment", 0.0, "rows"),
        "A row of logits is for the token after it. Logits that are not shifted against their "
        "targets know the token that they are scored on.",
        implies=("continuations", "future", "padding", "steps", *_SCORED),
    ),
    "batch": Check(
        *_measured("predictions:check_batch", 1e-3, "total variation or nats", 64.0),
        "A text has the same predictions alone and among others. Statistics over a batch break it.",
        implies=("normalization", "continuations", "padding", "steps", *_SCORED),
    ),
    "padding": Check(
        *_measured("predictions:check_padding", 1e-3, "total variation or nats", 64.0),
        "Padding a text up at its end changes nothing in it. Positions that are counted from the "
        "end, attention to the padding and means over places break it.",
        implies=("continuations", "steps", *_SCORED),
    ),
    "order": Check(
        *_measured("scores:check_order", 1e-3, "nats a prediction", 64.0),
        "Each text has its own score, in whatever order texts come and with whatever others. "
        "Results that are sorted by length and not put back, and states that are carried from text "
        "to text, break it.",
        needs="scoring",
        implies=("likelihood", "denominators"),
    ),
    "repetition": Check(
        *_measured("predictions:check_repetition", 1e-4, "total variation or nats", 8.0),
        "A text that is scored twice has the same score twice. Dropout that is on, and a state "
        "that outlives its text, break it.",
        implies=("normalization", "continuations", "alignment", *_COMPARED, *_SCORED),
    ),
    "steps": Check(
        *_measured("predictions:check_steps", 1e-3, "total variation or nats", 64.0),
        "Generation by steps, with rows that start anew and change places, has the distributions "
        "of a whole pass. A cache with wrong positions breaks it.",
    ),
    "likelihood": Check(
        *_measured("probabilities:check_likelihood", 1e-3, "nats a prediction", 64.0),
        "ln P of a text is the sum over its predictions, </s> included, of the softmax of the "
        "logits. Another base, a mean for a sum, logits that are not shifted break it.",
        needs="scoring",
    ),
    "beginning": Check(
        *_measured("scores:check_beginning", 1e-3, "times"),
        "The first token is scored once, after <s> and nothing else. Shifting labels without <s> "
        "leaves it out; a tokenizer that adds <s> by itself gives it twice.",
        needs="scoring",
        implies=("likelihood",),
    ),
    "end": Check(
        *_measured("scores:check_end", 1e-3, "times"),
        "The end of a text is scored once: without it P is that of all texts that begin so.",
        needs="scoring",
        implies=("likelihood",),
    ),
    "windows": Check(
        *_measured("scores:check_windows", 1e-3, "times"),
        "Windows over a long text score each of its tokens once. Overlaps that count twice, and "
        "last windows that are dropped, break it.",
        needs="scoring",
    ),
    "denominators": Check(
        *_measured("scores:check_denominators", 0.0, "share"),
        "Tokens, words, characters and bytes are those of the text that was scored. Characters "
        "taken for bytes, and the words of another version of the text, break it.",
        needs="scoring",
    ),
    "special tokens": Check(
        *_measured("tokenization:check_special_tokens", 0.0, "tokens"),
        "A text that says a special token, such as <|endoftext|>, is read as these characters: it "
        "neither ends nor begins there. Tokenizers of transformers read the token unless they are "
        "given split_special_tokens=True.",
        needs="tokenizer",
        implies=("beginning", "round trip"),
    ),
    "round trip": Check(
        *_measured("tokenization:check_round_trip", 0.0, "texts"),
        "Ids turn back into the text that they are of. Lower-casing, stripped accents, Unicode "
        "normalization and dropped characters give P of another, coarser text.",
        needs="tokenizer",
    ),
}


# What a server is asked for; see `auditing.served`.
SERVED_CHECKS = {
    "prompt": Check(
        *_measured("served:try_prompt", 0.0, "texts"),
        "Each token of a text has a log-probability. A server that has them of generated tokens "
        "alone gives every text the same score.",
        "server",
    ),
    "repetition": Check(
        *_measured("served:try_repetition", 1e-3, "nats a token", 64.0),
        "A text that is asked for twice has the same numbers. Dropout, rounding that depends on "
        "the load and several replicas of a model break it.",
        "server",
        ("generation", "sampling", "order", "batch", "cache"),
    ),
    "generation": Check(
        *_measured("served:try_generation", 1e-3, "nats a token", 64.0),
        "A token at the end of a text has the number with which it is generated there. Positions "
        "that are shifted by one, as by a server that counts on a beginning token, break it.",
        "server",
    ),
    "sampling": Check(
        *_measured("served:try_sampling", 1e-3, "nats a token", 64.0),
        "The distribution is the model's own, whatever temperature or top_p a request has.",
        "server",
    ),
    "top": Check(
        *_measured("served:try_top", 1e-3, "above 1", 8.0),
        "Probabilities of different tokens add up to 1 at most. Scores that are no logarithms of "
        "probabilities, and a softmax over some of the tokens, break it.",
        "server",
    ),
    "order": Check(
        *_measured("served:try_order", 1e-3, "nats a token", 64.0),
        "A text has the same numbers whatever was asked for before.",
        "server",
        ("generation", "batch"),
    ),
    "batch": Check(
        *_measured("served:try_batch", 1e-3, "nats a token", 64.0),
        "A text has the same numbers alone and beside others at the same time.",
        "server",
    ),
    "cache": Check(
        *_measured("served:try_cache", 1e-3, "nats a token", 64.0),
        "A text has the same numbers the first time and again, also as the beginning of another. "
        "Prefix caches with wrong positions, or of another precision, break it.",
        "server",
    ),
    "beginning": Check(
        *_measured("served:try_beginning", 0.0, "tokens"),
        "One beginning token stands before a text: without it the first token is not scored, and "
        "two are another text. A beginning may be given.",
        "server",
    ),
    "context": Check(
        *_measured("served:try_context", 0.0, "texts"),
        "A text that is longer than the context is refused, not cut.",
        "server",
        ("prompt", "repetition", "sampling", "top", "order", "batch", "cache", "round trip"),
    ),
    "round trip": Check(
        *_measured("served:try_round_trip", 0.0, "texts"),
        "Tokens join to the text that was sent. Lower-casing and normalization give P of another.",
        "server",
        ("prompt", "repetition", "generation", "sampling", "order", "batch", "cache"),
    ),
}
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


def refuse_unknown(names: Sequence[str] | None, table: Rows[Check]) -> None:
    """Raise `InputError` for a name of a check that a table has not."""
    if unknown := sorted(set(names or ()) - set(table)):
        known = ", ".join(table)
        raise InputError(f"check: there is no {unknown[0]!r:.80}; the checks are: {known}")


def cause_of(name: str, failed: Collection[str], table: Rows[Check]) -> str:
    """Return the first failed check that explains another unexplained by it; empty: none."""
    for other, row in table.items():
        if other in failed and name in row.implies and other not in table[name].implies:
            return other
    return ""


def is_within(worst: float, tolerance: float) -> bool:
    """Say whether a deviation is within its tolerance; what is no number is not."""
    return not math.isnan(worst) and worst <= tolerance


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
    """One number that a program of `PROGRAMS` would print, and what makes it differ from others.

    `value` is NaN where the program would refuse the text; `predictions` tells how many tokens it
    scores.
    """

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
    """Return the numbers that the programs, or some of them, would print.

    A definition also names special tokens that the text says, where the program reads them as
    tokens: ours does not.
    """
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
