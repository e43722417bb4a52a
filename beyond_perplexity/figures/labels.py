"""Names, order, colours and marks of models and decodings, the same in every figure and table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from beyond_perplexity.decoding.options import DECODINGS
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.families import FAMILIES
from beyond_perplexity.options import json_object, parse_options

if TYPE_CHECKING:
    import pandas as pd

Style = str | tuple[int, tuple[float, ...]]

REFERENCE = "reference"
RAW_READING = "raw"  # text in which no word is replaced
EXTERNAL = "external"

# Okabe and Ito (2008) without black, which is the test set's; wine instead of the yellow, which is
# too light for a line on white. The last three leave the smallest difference (CIELAB, also under
# simulated red and green blindness) as it is among the first seven and black.
PALETTE = (
    *("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#882255"),
    *("#4B0092", "#5B3A1E", "#DDCC77"),
)
# Of the human text: as it is, then as vocabularies let it be read; grey and dashed, as it is the
# same text.
REFERENCE_LOOKS: tuple[tuple[str, Style], ...] = (
    ("#000000", "-"),
    ("#4D4D4D", (0, (4, 1.5))),
    ("#7A7A7A", (0, (1.5, 1))),
    ("#4D4D4D", (0, (6, 1, 1, 1))),
)
NEUTRAL_COLOUR = "#555555"  # of what belongs to no model
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", "p")
LINE_STYLES = ("-", "--", "-.", ":", (0, (3, 1, 1, 1, 1, 1)), (0, (6, 2)))

# A model's name may end in its kind of vocabulary, or in how it was trained.
NAME_SUFFIXES = {"-bpe": "BPE", "-closed": "closed", "-scheduled-sampling": "scheduled sampling"}
DECODING_NAMES = {**{k: row.title for k, row in DECODINGS.items()}, EXTERNAL: "External samples"}


def colour_and_mark(place: int) -> tuple[str, str]:
    """Return the looks of a series; an eleventh repeats the first's colour, not its mark."""
    mark = MARKERS[(place + place // len(PALETTE)) % len(MARKERS)]
    return PALETTE[place % len(PALETTE)], mark


class SourceName(NamedTuple):
    """A sample set: the samples of a model under a decoding, external samples, or the test set."""

    model: str
    decoding: str


def parse_source(name: str) -> SourceName:
    """Split ``reference[/{vocabulary}]``, which has no decoding, ``{model}/{decoding}`` or
    ``external/{name}``, whose decoding is ``external``."""
    first, slash, second = name.partition("/")
    if name == REFERENCE or (first == REFERENCE and second):
        return SourceName(name, "")
    if not (slash and first and second):
        raise InputError(
            f"source '{name}' is neither 'reference' nor 'MODEL/DECODING' nor 'external/NAME'"
        )
    return SourceName(name, EXTERNAL) if first == EXTERNAL else SourceName(first, second)


def is_reference(name: str) -> bool:
    """Return whether a source, or its model, is the test set: raw, or read in a vocabulary."""
    return name == REFERENCE or name.startswith(f"{REFERENCE}/")


def reference_in(vocabulary: str) -> str:
    """Return the source of the test set as it is read in a vocabulary; ``"raw"``: as it is."""
    return REFERENCE if vocabulary == RAW_READING else f"{REFERENCE}/{vocabulary}"


def _in_vocabulary(source: str) -> str:
    vocabulary = source.partition("/")[2]
    return f" in the vocabulary {vocabulary}" if vocabulary else ""


def short_proposal(model: str, proposal: str) -> str:
    """Name a proposal without its model."""
    return proposal.removeprefix(f"{model}-").replace("-", " ")


def proposal_colours(table: pd.DataFrame) -> dict[str, str]:
    """Give a colour to what each proposal of a table is called without its model."""
    pairs = zip(table["model"], table["proposal"], strict=True)
    names = dict.fromkeys(short_proposal(*pair) for pair in pairs)
    return {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(names)}


def _listed_first(names: Iterable[str], listed: Sequence[str]) -> list[str]:
    """Sort names: the listed ones in their listed order, then the others by the alphabet."""
    order = {name: place for place, name in enumerate(listed)}
    return sorted(set(names), key=lambda name: (order.get(name, len(order)), name))


@dataclass(frozen=True)
class Labels:
    """Names and order of models, which fixes colour and mark in every figure of a report, and of
    decodings; families and kinds (default: the name) find published values."""

    models: list[str] = field(default_factory=list)
    decodings: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)  # What is printed, where not obvious
    families: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)  # What a model is evaluated on, and its caps
    reference: str = "Test set"
    baseline: str = "Human text (baseline)"  # Its row in a figure of distances
    band: str = "random splits of this human text"  # Of what its band holds 95%
    titles: dict[str, str] = field(default_factory=dict)  # Of latent models and proposals
    published: bool = False  # Whether the data are the paper's, so that its values stand beside
    subject: str = ""  # The corpus, which ends a table's label in LaTeX; empty: there is one alone

    @classmethod
    def from_json(cls, text: str | None) -> Labels:
        """Read labels from the JSON of a command line, its attributes as keys, all optional."""
        return cls() if text is None else parse_options(cls, json_object(text), "labels")

    def model(self, name: str) -> str:
        """Return the printed label of a model."""
        if is_reference(name):
            return self.reference + _in_vocabulary(name)
        for suffix, meaning in NAME_SUFFIXES.items():
            if name.endswith(suffix) and name not in self.names:
                plain = self.model(name.removesuffix(suffix))
                inside = plain.endswith(")")
                return f"{plain[:-1]}, {meaning})" if inside else f"{plain} ({meaning})"
        plain = name.removeprefix(f"{EXTERNAL}/")
        known = FAMILIES[name].title if name in FAMILIES else None
        return self.names.get(name) or known or plain.replace("_", " ")

    def human(self, source: str = REFERENCE) -> str:
        """Return the printed label of the test set, in a vocabulary or not, inside a sentence."""
        return self.reference.lower() + _in_vocabulary(source)

    def decoding(self, name: str) -> str:
        """Return the printed label of a decoding."""
        known = self.names.get(name) or DECODING_NAMES.get(name)
        return known or name.replace("_", " ").capitalize()

    def source(self, name: str) -> str:
        """Return the printed label of a source: the model, and the decoding where there is one."""
        model, decoding = parse_source(name)
        if decoding in ("", EXTERNAL):
            return self.model(model)
        return f"{self.model(model)}, {self.decoding(decoding).lower()}"

    def sort_models(self, names: Iterable[str]) -> list[str]:
        """Sort models: as listed, then by the alphabet, external samples last."""
        ordered = _listed_first(names, self.models)
        return sorted(ordered, key=lambda name: name.startswith(f"{EXTERNAL}/"))

    def sort_decodings(self, names: Iterable[str]) -> list[str]:
        """Sort decodings: as listed, then the known ones in their usual order, then the rest."""
        usual = [name for name in DECODING_NAMES if name not in self.decodings]
        ordered = _listed_first(names, [*self.decodings, *usual])
        return sorted(ordered, key=lambda name: name == EXTERNAL)

    def sort_sources(self, names: Iterable[str]) -> list[str]:
        """Sort sources by model, then by decoding; the test set first."""
        given = list(dict.fromkeys(names))
        parsed = {name: parse_source(name) for name in given}
        found = {source.model for source in parsed.values()}
        humans = sorted(filter(is_reference, found))
        models = self.sort_models(found.difference(humans))
        decodings = self.sort_decodings({source.decoding for source in parsed.values()} - {""})
        places = {name: place for place, name in enumerate([*humans, *models])}
        columns = {name: place for place, name in enumerate(["", *decodings])}
        return sorted(given, key=lambda n: (places[parsed[n].model], columns[parsed[n].decoding]))


class Looks:
    """The fixed colour and mark of each model, listed ones first, and the line of each decoding."""

    def __init__(self, labels: Labels, sources: Iterable[str]) -> None:
        parsed = [parse_source(name) for name in sources]
        found = {source.model for source in parsed}
        decodings = {source.decoding for source in parsed} - {""}
        self._humans = sorted({REFERENCE, *filter(is_reference, found)})
        models = found.difference(self._humans)
        self._models = labels.sort_models(models | set(labels.models))
        self._decodings = labels.sort_decodings(decodings | set(labels.decodings))

    def colour(self, model: str) -> str:
        """Return the colour of a model, as hexadecimal digits."""
        if is_reference(model):
            return REFERENCE_LOOKS[self._humans.index(model) % len(REFERENCE_LOOKS)][0]
        return colour_and_mark(self._models.index(model))[0]

    def marker(self, model: str) -> str:
        """Return the mark of a model."""
        return colour_and_mark(self._models.index(model))[1]

    def reference_style(self, model: str) -> Style:
        """Return the line style of the test set: solid as it is, broken in a vocabulary."""
        return REFERENCE_LOOKS[self._humans.index(model) % len(REFERENCE_LOOKS)][1]

    def line_style(self, decoding: str) -> Style:
        """Return the line style of a decoding; solid where there is none."""
        if decoding in ("", EXTERNAL):
            return "-"
        return LINE_STYLES[self._decodings.index(decoding) % len(LINE_STYLES)]
