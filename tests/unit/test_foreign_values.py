"""Values and paths of a configuration that no job can use. Needs nothing.

Oracle of each message: the key that the test itself broke.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from pathlib import Path

import pytest
import yaml

from beyond_perplexity.corpus.split import SplitOptions
from beyond_perplexity.errors import InputError
from beyond_perplexity.options import parse_options
from beyond_perplexity.planning.configuration_file import check_path, check_values
from beyond_perplexity.planning.validation import validate
from beyond_perplexity.semantics.evaluators.job import EvaluatorTraining
from beyond_perplexity.training.options import ContrastiveTrainingOptions, TrainingOptions

ROOT = Path(__file__).parents[2]


def changed(path: str, value: object) -> dict:
    """Return the smallest shipped configuration with another value at a path of keys."""
    config = yaml.safe_load((ROOT / "configs" / "smoke.yaml").read_text(encoding="utf-8"))
    *above, last = path.split("/")
    level = config
    for key in above:
        level = level.setdefault(key, {})
    level[last] = value
    return config


NUMBERS = sorted(
    name
    for name, hint in typing.get_type_hints(TrainingOptions).items()
    if {int, float} & {hint, *typing.get_args(hint)}
)


NONSENSE = [math.nan, math.inf, -math.inf, -1, -0.5, 1 << 63, 10**400]


def test_no_number_of_a_training_is_nonsense() -> None:
    """Each number in turn, each nonsense twice; and what no key may be, for all of them at once."""
    assert {"learning_rate", "plateau_epochs", "sampling_k"} <= set(NUMBERS)
    for place, name in enumerate(NUMBERS):
        value = NONSENSE[place % len(NONSENSE)]
        with pytest.raises(InputError, match=rf"config: models\.lstm\.training\.?.*{name}"):
            validate(changed(f"models/lstm/training/{name}", value))
        for value in NONSENSE[:3] + NONSENSE[5:]:
            with pytest.raises(InputError, match=rf"config: training\.{name}: is"):
                check_values({"training": {name: value}})


@pytest.mark.parametrize("kind", [TrainingOptions, ContrastiveTrainingOptions, EvaluatorTraining])
def test_no_option_of_a_training_is_below_zero(kind: type) -> None:
    """Of the dataclasses, which a job reads whatever the schema says."""
    hints = typing.get_type_hints(kind)
    for name in (name for name in NUMBERS if name in hints):
        with pytest.raises(InputError, match=name):
            parse_options(kind, {name: -1}, "training")


@pytest.mark.parametrize(
    ("share", "value"), [("train", math.nan), ("valid", math.inf), ("test", -0.1), ("train", 1.5)]
)
def test_no_share_of_a_split_is_nonsense(share: str, value: float) -> None:
    assert share in {field.name for field in dataclasses.fields(SplitOptions)}
    shares = {"train": 0.5, "valid": 0.2, "test": 0.3, share: value}
    with pytest.raises(InputError, match=r"config: corpora\.wikipedia\.split"):
        validate(changed("corpora/wikipedia/split", shares))


@pytest.mark.parametrize(
    ("section", "value"),
    [
        ("decodings", {"kind": "ancestral"}),
        ("models", {"family": "trigram", "corpus": "wikipedia", "vocabulary": "words"}),
        ("corpora", {"source": {"format": "text", "paths": ["x"]}, "split": {}}),
    ],
)
def test_a_name_does_not_end_in_a_line_feed(section: str, value: dict) -> None:
    with pytest.raises(InputError, match=rf"config: {section}\.a\\n: .*control character"):
        validate(changed(f"{section}/a\n", value))


def test_the_end_of_a_pattern_is_the_end_of_a_text() -> None:
    """The types alone, without the search for control characters."""
    held: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("beyond_perplexity.planning.validation.check_values", lambda config: None)
        for ending in ("\n", "\n\n", " "):
            config = changed("decodings/a" + ending, {"kind": "ancestral"})
            with pytest.raises(InputError, match=r"expected .* match pattern"):
                validate(config)
            held.append(ending)
    assert len(held) == 3


PATHS = [
    ("https://example.org/a.bz2", "is an address; give it as {url"),
    ("s3://bucket/a", "is an address"),
    ("data/{x}.txt", "has the character {"),
    ("data/<x>.txt", "has the character <"),
    ("data/x\n.txt", "control character"),
    ("   ", "is blank"),
    ("a" * 5000, "4096 bytes at most"),
]


@pytest.mark.parametrize("place", ["corpus", "folder", "stop words", "samples"])
def test_paths_that_no_rule_can_name_are_told_wherever_they_stand(place: str) -> None:
    for path, message in PATHS if place == "corpus" else PATHS[2:4]:
        key, value, named = {
            "corpus": (
                "corpora/wikipedia/source/paths",
                [path],
                "corpora.wikipedia.source.paths.0",
            ),
            "folder": ("pathvars/results", path, "pathvars.results"),
            "stop words": ("tendencies/stop_words", path, "tendencies.stop_words"),
            "samples": (
                "external_samples/mine",
                {"path": path, "format": "text", "corpus": "wikipedia"},
                "external_samples.mine.path",
            ),
        }[place]
        with pytest.raises(InputError) as caught:
            validate(changed(key, value))
        assert str(caught.value).startswith(f"config: {named}")
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["url", "member"])
def test_addresses_with_marks_of_snakemake_are_told(key: str) -> None:
    location = {"url": "https://a.org/b.zip", "sha256": "0" * 64, "member": "c.txt"}
    location[key] += "{d}"
    with pytest.raises(InputError, match=rf"source\.paths\.0\.{key}: has the character {{"):
        validate(changed("corpora/wikipedia/source/paths", [location]))


def test_found_files_are_checked_like_named_ones(tmp_path: Path) -> None:
    (tmp_path / "a{b}.txt").write_text("x\n")
    paths = [f"{tmp_path}/*.txt"]
    with pytest.raises(InputError, match=r"paths.*a\{b\}\.txt' has the character \{"):
        validate(changed("corpora/wikipedia/source/paths", paths))


def test_ordinary_paths_pass() -> None:
    for path in ("data/a b.txt", "/x/é.txt", "../a[1].txt", "a:b", "C:\\x", "-x", "~/a"):
        check_path("key", path)


def test_what_is_nested_too_deeply_is_told() -> None:
    value: object = 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(InputError, match="nested more than"):
        check_values({"seed": value})
    check_values({"a": {"b": [1, 2.5, None, True, "x\ty"]}})
