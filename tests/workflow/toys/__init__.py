"""A toy of each kind that can be added: its file here, its row, and adding both to a tree."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
LINE = re.compile(r"^\| ([a-z ]+) \| `(\S+/NAME\.py)` \| `(\w+)` in `(\S+)` \|$", re.M)


class Toy(NamedTuple):
    """A file of this folder, without its suffix, and what is written into the table of its kind."""

    name: str
    row: str


# By what CONTRIBUTING.md calls the kind.
TOYS = {
    "model family": Toy(
        "unigram",
        """
    "unigram": Family(f"{_MODELS}.unigram:Unigram", None, "Unigram", "trained"),
""",
    ),
    "latent family": Toy(
        "hidden_bits",
        """
    "hidden-bits": Family(
        reference=f"{_MODELS}.hidden_bits:HiddenBits",
        options=None,
        title="Hidden bits",
        kind="latent",
        proposals=("bit-tagger",),
    ),
    "bit-tagger": Family(
        f"{_MODELS}.hidden_bits:BitTagger", None, "Bit tagger", "proposal"
    ),
""",
    ),
    "decoding": Toy(
        "epsilon",
        """
    "epsilon": Decoding(
        "Epsilon",
        "the tokens with q(w) >= `epsilon` (Hewitt et al. 2022)",
        f"{_HERE}.epsilon",
        {"epsilon": share(0.001)},
    ),
""",
    ),
    "tendency": Toy(
        "word_length",
        """
    "word_length": Tendency(
        "Word length",
        "number",
        "ks",
        "word_length",
        statistic="beyond_perplexity.tendencies.word_length:word_length",
        sizes=(4, 32),
        family="toys",
    ),
""",
    ),
    "tendency of a class of words": Toy(
        "digits",
        """
    "digits": Tendency(
        "Digits",
        "share",
        "ks",
        "digits",
        word_class="beyond_perplexity.tendencies.digits:digit_test",
        figure="figure_digits",
    ),
""",
    ),
    "estimator": Toy(
        "median",
        """
    "median": f"{_HERE}.median:Median",
""",
    ),
    "figure": Toy(
        "losses",
        """

["tendencies/losses"]
code = "figures.losses:losses"
inputs = ["training"]
title = "Losses"
caption = "The last loss of every model."
""",
    ),
    "table": Toy(
        "epochs",
        """

["tendencies/epochs"]
code = "report.epochs:epochs"
inputs = ["training"]
title = "Epochs"
caption = "How long every model was trained."
""",
    ),
    "reader": Toy(
        "csv_lines",
        """
    "csv": Format("title and text of a document a line", "csv_lines:read_csv"),
""",
    ),
}


class Place(NamedTuple):
    """Where a kind goes: the pattern of its file, its table, and the file of that."""

    file: str
    table: str
    rows: str


def read_places() -> dict[str, Place]:
    """Read from CONTRIBUTING.md where each kind goes."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return {kind: Place(*rest) for kind, *rest in LINE.findall(text)}


def insert_row(path: Path, table: str, row: str) -> None:
    """Write a row before the closing bracket of a table, or at the end of a file of rows."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        path.write_text(text + row, encoding="utf-8")
        return
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if table in [ast.unparse(target) for target in targets]:
                lines = text.splitlines(keepends=True)
                lines.insert((node.value.end_lineno or 0) - 1, row.lstrip("\n"))
                path.write_text("".join(lines), encoding="utf-8")
                return
    raise AssertionError(f"{path} has no table {table}")


def add(tree: Path, kind: str) -> set[str]:
    """Add the toy of a kind; return the files that this may touch."""
    place = read_places()[kind]
    file = place.file.replace("NAME", TOYS[kind].name)
    assert not (tree / file).exists()
    shutil.copyfile(Path(__file__).with_name(f"{TOYS[kind].name}.py"), tree / file)
    insert_row(tree / place.rows, place.table, TOYS[kind].row)
    return {file, place.rows}
