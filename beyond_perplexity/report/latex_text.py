r"""Text of users as LaTeX that prints it as it is, in ASCII alone, and how wide it comes out.

pdfLaTeX stops at a character that its fonts lack. So every character beyond ASCII is written as a
command that plain LaTeX knows (accents, symbols, Greek letters); any other by its code point, which
LuaLaTeX and XeLaTeX turn into the character (`CODE_POINT`).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from unicodedata import name, normalize

from beyond_perplexity.foreign_text import printable

STAR_WIDTH = 0.5  # em of a raised star

# What a document defines to print a character by its code point.
CODE_POINT = (
    r"\providecommand{\bpunicode}[1]"
    r'{\ifdefined\Umathchar\symbol{"#1}\else\texttt{U+#1}\fi}'
)

_MARKS = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "[": "{[}",  # at the beginning of a row it, and *, would belong to the line end before
    "*": "{*}",
    "`": r"\textasciigrave{}",  # no ligature
    '"': r"\texttt{\char34}",  # curled, and a shorthand of babel, otherwise
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "\N{MINUS SIGN}": "$-$",
    "∞": r"$\infty$",
    "±": r"$\pm$",
    "½": r"$\frac{1}{2}$",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "†": r"\textdagger{}",
    "◇": r"$\diamond$",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≠": r"$\neq$",
    "≈": r"$\approx$",
    "≪": r"$\ll$",
    "≫": r"$\gg$",
    "√": r"$\surd$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "→": r"$\rightarrow$",
    "←": r"$\leftarrow$",
    "²": "$^{2}$",
    "³": "$^{3}$",
    "°": r"$^{\circ}$",
    "‘": "{`}",
    "’": "'",
    "“": "{``}",
    "”": "{''}",
    "‐": "-",
    "§": r"\S{}",
    "©": r"\copyright{}",
    "µ": r"$\mu$",
    "ß": r"\ss{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "œ": r"\oe{}",
    "Œ": r"\OE{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "ı": r"\i{}",
    "ς": r"$\varsigma$",
    "\N{REPLACEMENT CHARACTER}": "?",
}
# By the code point of the combining mark.
_ACCENTS = {
    0x300: "`",
    0x301: "'",
    0x302: "^",
    0x303: "~",
    0x304: "=",
    0x306: "u ",
    0x307: ".",
    0x308: '"',
    0x30A: "r ",
    0x30B: "H ",
    0x30C: "v ",
    0x323: "d ",
    0x327: "c ",
    0x331: "b ",
}
_DOTLESS = {"i": r"\i", "j": r"\j"}
_SMALL = frozenset(
    (
        *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"),
        *("lambda", "mu", "nu", "xi", "omicron", "pi", "rho", "sigma", "tau", "upsilon", "phi"),
        *("chi", "psi", "omega"),
    )
)
_CAPITALS = frozenset(
    (
        *("Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi"),
        "Omega",
    )
)
_LATIN_CAPITALS = {
    "Alpha": "A",
    "Beta": "B",
    "Epsilon": "E",
    "Zeta": "Z",
    "Eta": "H",
    "Iota": "I",
    "Kappa": "K",
    "Mu": "M",
    "Nu": "N",
    "Omicron": "O",
    "Rho": "P",
    "Tau": "T",
    "Chi": "X",
}
# What would melt into another mark with itself after it.
_MELTING = set("-',?!")

# Thousandths of an em in Computer Modern Roman at 10 points (cmr10.tfm), by the width.
_WIDTHS = {
    278: "!',.:;[]il",
    306: "fj",
    333: "- ",
    361: "I",
    392: "()tr",
    394: "s",
    444: "cez",
    472: "?",
    500: "/0123456789ago",
    514: "J",
    528: "kqvxy",
    556: "Sbdhnpu",
    611: "Z",
    625: "L",
    653: "F",
    681: "EP",
    708: "B",
    722: "CTw",
    736: "R",
    750: "AHNUVXY",
    764: "D",
    778: "=+<>KOQ&@",
    785: "G",
    833: "#%m",
    917: "M",
    1028: "W",
}
_WIDTH = {letter: size / 1000 for size, letters in _WIDTHS.items() for letter in letters}
_WIDE = {"∞": 1.0, "—": 1.0, "…": 1.0, "→": 1.0, "←": 1.0, "œ": 0.9, "æ": 0.8, "Œ": 1.1, "Æ": 1.0}
_PIECE = 4.0  # em between breaks of a long word: what LaTeX fills a line of a caption with
_USUAL, _BY_CODE_POINT = 0.8, 0.525  # of other commands; of a character of ``U+XXXX``


def escape_latex(text: str) -> str:
    """Escape text so that LaTeX prints it as it is.

    Returns
    -------
    str
        ASCII on one line. It needs `CODE_POINT` where a character has no command.
    """
    return "".join(written for _, written in _pieces(text))


def _pieces(text: str) -> list[tuple[str, str]]:
    """List what is seen as one character each, with what LaTeX is given for it."""
    found: list[tuple[str, str]] = []
    for mark in normalize("NFC", printable(text)):
        accent = _ACCENTS.get(ord(mark))
        if accent and found and len(found[-1][0]) == 1 and found[-1][0].isascii():
            letter = found.pop()[0]
            found.append((letter + mark, _accented(accent, letter)))
        else:
            found.append((mark, _written(mark)))
    return [
        (mark, written + "{}" if mark == following and mark in _MELTING else written)
        for (mark, written), (following, _) in pairwise([*found, ("", "")])
    ]


def _accented(accent: str, letter: str) -> str:
    return rf"\{accent.strip()}{{{_DOTLESS.get(letter, _MARKS.get(letter, letter))}}}"


def _written(mark: str) -> str:
    if mark in _MARKS:
        return _MARKS[mark]
    if mark.isascii():
        return mark
    parts = normalize("NFD", mark)
    letter, accents = parts[0], parts[1:]
    if accents and letter.isascii() and all(ord(accent) in _ACCENTS for accent in accents):
        for accent in accents:
            letter = _accented(_ACCENTS[ord(accent)], letter)
        return letter
    return _greek(mark) or rf"\bpunicode{{{ord(mark):04X}}}"


def _greek(mark: str) -> str:
    case, _, letter = name(mark, "").replace("LAMDA", "LAMBDA").partition(" LETTER ")
    if case == "GREEK SMALL" and letter.lower() in _SMALL:
        return rf"$\{letter.lower()}$" if letter != "OMICRON" else "o"
    capital = letter.capitalize()
    if case == "GREEK CAPITAL" and capital in _CAPITALS:
        return rf"$\{capital}$"
    return _LATIN_CAPITALS.get(capital, "") if case == "GREEK CAPITAL" else ""


@lru_cache(maxsize=1 << 16)
def latex_width(text: str) -> float:
    """Estimate how wide a text is in Computer Modern Roman.

    Returns
    -------
    float
        In em of the font at 10 points; other sizes have other proportions (`latex_page.SIZES`).

    Notes
    -----
    Kerning, which mostly brings letters together, is left out.
    """
    return sum(_width_of(mark, written) for mark, written in _pieces(text))


def _width_of(mark: str, written: str) -> float:
    if r"\bpunicode" in written:
        return _BY_CODE_POINT * (2 + max(4, len(f"{ord(mark):X}")))
    letter = normalize("NFD", mark)[0]
    return _WIDE.get(mark) or _WIDTH.get(letter, _USUAL)


def breakable_latex(text: str, width: float) -> str:
    """Escape text, and let words be broken that are wider than a line.

    Parameters
    ----------
    text : str
        The text.
    width : float
        Width of the line, in em as `latex_width` gives them.
    """
    return " ".join(_breakable_word(word, width) for word in printable(text).split(" "))


def _breakable_word(word: str, width: float) -> str:
    if latex_width(word) <= width:
        return escape_latex(word)
    line, broken = 0.0, ""
    for mark, written in _pieces(word):
        size = _width_of(mark, written)
        if line and line + size > min(
            width / 2, _PIECE
        ):  # a line may begin with the end of a piece
            line, broken = 0.0, broken + r"\allowbreak{}"
        line, broken = line + size, broken + written
    return broken


def cell_width(cell: str) -> float:
    """Return how wide a cell is, in em; its stars are raised."""
    number = cell.rstrip("*")
    return latex_width(number) + STAR_WIDTH * (len(cell) - len(number))
