"""One word for one thing: none of the words that the field's own have replaced is left.

Oracle: the left column of the table that this file holds, looked for in every page, configuration,
caption and template, and in every text and docstring of the code (help, messages, columns).
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pyarrow as pa
import pytest

import beyond_perplexity
from beyond_perplexity.arguments import CommandParser
from beyond_perplexity.errors import InputError
from beyond_perplexity.importance.ways_to_draw import ReductionOptions
from beyond_perplexity.options import parse_options
from beyond_perplexity.perplexities.score_files import read_scores
from beyond_perplexity.schemas.tendencies import TENDENCY_MEASURES
from beyond_perplexity.storage.shards import check_columns

ROOT = Path(__file__).parents[2]
REPLACED = {  # pattern -> what is said instead
    r"\bfloors?\b|\bfloor_(low|high)\b": "baseline",
    r"\bbracket_\w+|\b(the|a) bracket\b": "two-sided bounds",
    r"\bbod(y|ies) of text\b": "sample set",
    r"\bbrought\b": "external, user-supplied",
    r"\bworked out from (its|the) model\b": "analytic",
    r"\bspellers?\b|\bwords spelled\b": "spelling model, open-vocabulary bits per byte",
    r"\bcompared words\b|\bread(ing)? in words\b": "shared vocabulary",
    r"\blaws?\b": "distribution",
    r"\bexchange(d|s)?\b|\btold apart\b": "permuted, swapped; distinguished",
    r"\bcharge[ds]?\b": "penalize",
    r"\blikeliest\b": "argmax, most probable",
    r"\bfilling\b": "padding",
    r"\balarms?\b": "failed check",
    r"\bline of names\b|\ban address\b": "header row; URL",
    r"\bsmallest shifts?\b|\bcould be missed\b": "minimum detectable effect",
    r"\bthe house\b": "the codebase",
    r"\bpaper 00\d\b": "the paper's authors and year",
}
ALLOWED = re.compile(
    # laws that have a name or are fitted, as the field says
    r"Zipf|Heaps|Taylor|power laws?|Poisson law|law of succession|p_value_law|[Ff]itted law"
    r"|law (that is )?fitted|of (a|the|each) law|with laws|to a law|the laws? (with|over|under)"
    r"|the law is that of the counts|fit(ted)?, law|\(law|test a law|p of a law|[Ff]it the law"
    r"|from the law|no law|a law of s"
    r"|[Ee]ight floors|\bown floor\b|\| floor \|"  # of the packages
    r"|floor/|calibration/exchange|sensitivity/exchange"  # keys of random streams, as of old
    r"|trigram.py:\d+: floor$|probes.py:\d+: exchanged$"  # of rounding; of a stream
)
PAGES = ("docs/**/*.md", "*.md", "config.yaml", "configs/*.yaml", "results/README.md")
CODE = ("beyond_perplexity/**/*.toml", "beyond_perplexity/**/*.html", "beyond_perplexity/**/*.rst")
FORMER = {"CHANGELOG.md", "former_names.py", "words.md"}  # say what was changed


def texts():
    for path in (path for pattern in (*PAGES, *CODE) for path in ROOT.glob(pattern)):
        if path.name not in FORMER and "site" not in path.parts:
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for path in (*ROOT.glob("beyond_perplexity/**/*.py"), *ROOT.glob("scripts/*.py")):
        if path.name not in FORMER:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


@pytest.fixture(scope="module")
def lines():
    return [(place, line) for place, text in texts() for line in text.splitlines()]


@pytest.mark.parametrize("pattern", REPLACED)
def test_the_field_s_word_is_used(pattern, lines):
    looked = re.compile(pattern)
    found = [f"{place}: {line.strip()}" for place, line in lines if looked.search(line)]
    left = [line for line in found if not ALLOWED.search(line)]
    assert not left, f"say {REPLACED[pattern]}:\n" + "\n".join(left)


PLANTED = (
    *("its floor", "the bracket of", "bodies of text", "was brought", "worked out from its model"),
    *("a speller", "reading in words", "one law", "told apart", "charged for it", "the likeliest"),
    *("filling included", "an alarm", "a line of names", "could be missed", "the house"),
    "paper 003",
)


@pytest.mark.parametrize(("pattern", "phrase"), list(zip(REPLACED, PLANTED, strict=True)))
def test_a_replaced_word_would_be_found(pattern, phrase):
    assert re.search(pattern, phrase)
    assert not ALLOWED.search(phrase)


def test_former_names_are_told_their_names_of_now(tmp_path, capsys):
    """Oracle: the two names of each that stand here."""
    parser = CommandParser()
    for flag in ("--spelling-model", "--no-two-sided", "--model"):
        parser.add_argument(flag)
    for old, told in (
        ("--speller x", "; it is called --spelling-model now"),
        ("--no-bracket=x", "; it is called --no-two-sided now"),
        ("--modle x", "; did you mean --model?"),
        ("--bodies 1 speller", "unrecognized arguments: --bodies 1 speller\n"),
    ):
        with pytest.raises(SystemExit) as ended:
            parser.parse_args(old.split())
        assert ended.value.code == 2
        assert capsys.readouterr().err.endswith(told + "\n" * (not told.endswith("\n")))
    old = pa.schema([f.with_name(f.name.replace("baseline", "floor")) for f in TENDENCY_MEASURES])
    with pytest.raises(InputError, match=r"'baseline' is missing; .*its 'floor' is called so now"):
        check_columns("a.parquet", old, TENDENCY_MEASURES)
    with pytest.raises(InputError, match=r"bracket.*it is called 'two_sided' now"):
        parse_options(ReductionOptions, {"bracket": True}, "options")
    with pytest.raises(TypeError, match=r"'speller'; it is called 'spelling_model' now"):
        beyond_perplexity.perplexity("model", ["a"], speller="x")
    header = "doc_id,bytes,log_likelihood,log_likelihood_spelled"
    (tmp_path / "a.csv").write_text(f"{header}\n0,1,-1,-1\n")
    with pytest.raises(InputError, match=r"log_likelihood_open_vocabulary.*its 'log_likelihood_sp"):
        read_scores(tmp_path / "a.csv")
