"""Tables that are hard to print: wide, high, with long words, passages and letters of any kind."""

import random

import pandas as pd

from beyond_perplexity.report.layout import Column, Table

NASTY = [
    *(r"\input{/etc/passwd}", "$x_1^{2}$", "100% & more", "#~|`\"'", "-- --- '' ,, ?` !`"),
    *("k̂ and p̂(x₁)", "τ = 0.5, α, β, Ω", "Ærøskøbing, Łódź, naïve, ǖ", "中文字幕", "עברית"),
    *("👩\u200d🔬", "*starred", "[1pt] bracket", "", "∞", "a" * 70),
    *("Rindfleischetikettierung" * 3, "\x1b[31m\x00"),
]
WORDS = ["the", "of", "model", "perplexity", "estimated", "proposal", "under", "documents"]


def hostile_table(seed: int) -> Table:
    """Make a table of any shape; the same seed gives the same one."""
    drawn = random.Random(seed)
    columns = [_column(drawn, place) for place in range(drawn.choice([1, 2, 5, 9, 17, 31]))]
    rows = [[_cell(drawn, one) for one in columns] for _ in range(drawn.choice([0, 1, 6, 30, 90]))]
    note = " ".join(_words(drawn, 12) for _ in range(drawn.choice([0, 1, 9, 20])))
    title = drawn.choice(["Table 4: ", "Tables I and II: ", ""]) + _words(drawn, 6)
    return Table(f"hostile-{seed}", title, note, columns, rows, pd.DataFrame())


def _column(drawn: random.Random, place: int) -> Column:
    kind = drawn.choice(["number"] * 6 + ["text", "text", "passage"])
    kind = "text" if place < 2 else kind
    return Column(
        _words(drawn, drawn.choice([1, 1, 2, 8])),
        drawn.choice(["", "", "Group", "A heading of several words", "中文"]),
        text=kind == "text",
        wraps=kind == "passage",
        published=drawn.random() < 0.2,
    )


def _cell(drawn: random.Random, column: Column) -> str:
    if column.wraps:
        return _words(drawn, drawn.choice([1, 10, 60]))
    if column.text:
        return _words(drawn, drawn.choice([1, 1, 2, 3]))
    value = f"{drawn.uniform(-100, 100):.3f}".replace("-", "−")
    return value + drawn.choice(["", "*", "**", " [0.1, 0.2]", " ± 0.004"])


def _words(drawn: random.Random, number: int) -> str:
    known = WORDS * 4 + NASTY
    return " ".join(drawn.choice(known) for _ in range(number))
