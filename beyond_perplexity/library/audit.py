"""Whether the probabilities of a model are what they claim to be, from a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beyond_perplexity.auditing.checks import CHECKS, Finding, describe_findings
from beyond_perplexity.auditing.rosetta_programs import PROGRAMS, PrintedNumber, describe_numbers
from beyond_perplexity.errors import InputError, extras_named
from beyond_perplexity.library.calls import (
    Unused,
    in_memory,
    library_function,
    torch_kept,
)
from beyond_perplexity.library.given import GivenFiles, check_numbers, check_path_or_name
from beyond_perplexity.library.result import Result

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from beyond_perplexity.models.contract import LanguageModel
    from beyond_perplexity.vocabulary import Vocabulary

_COLUMNS = [*Finding._fields[:-1], "unit", "because"]


class Audit(Result):
    """What an audit found; its table has a row a check, the table ``rosetta`` a row a number.

    Parameters
    ----------
    model : str
        What was audited.
    findings : sequence of Finding
    numbers : sequence of PrintedNumber
        Of other programs, and ours beside them; empty where they were not asked for.

    Attributes
    ----------
    sound : bool
        No check sounds an alarm.
    alarms : list of str
        The checks that do and that no other alarm explains.
    """

    def __init__(
        self, model: str, findings: Sequence[Finding], numbers: Sequence[PrintedNumber]
    ) -> None:
        import pandas as pd

        rows = [{**one._asdict(), "unit": CHECKS[one.check].unit} for one in findings]
        self.sound = all(one.sound for one in findings)
        self.alarms = [one.check for one in findings if not one.sound and not one.because]
        others = [{**one._asdict(), "version": PROGRAMS[one.program].version} for one in numbers]
        rosetta = pd.DataFrame(others, columns=[*PrintedNumber._fields, "version"])
        summary = {"model": model, "sound": self.sound, "alarms": self.alarms}
        lines = [*describe_findings(findings), *describe_numbers(numbers)]
        table = pd.DataFrame(rows, columns=_COLUMNS)
        super().__init__(
            "audit",
            table,
            text="\n".join(lines),
            summary={**summary, "rosetta": others},
            tables={"rosetta": rosetta} if others else {},
            figures={"deviations": partial(_draw, table)},
        )


def _draw(table: pd.DataFrame) -> Figure:
    from beyond_perplexity.figures.deviations import draw_deviations

    return draw_deviations(table)


def _unused(given: Mapping[str, Any]) -> Iterator[Unused]:
    if isinstance(given["model"], str | Path):
        yield Unused("with a model that has its own", ("vocabulary",))
    else:
        yield Unused("with a model in memory", ("precision", "device"))
    if in_memory(given["texts"]):
        yield Unused("on texts in memory", ("field",))


@library_function(_unused)
def audit(
    model: str | Path | LanguageModel,
    texts: Any,
    *,
    vocabulary: Vocabulary | None = None,
    field: str | None = None,
    documents: int = 16,
    check: str | Sequence[str] | None = None,
    rosetta: bool = False,
    precision: str = "float32",
    seed: int = 1,
    threads: int | None = None,
    device: str = "auto",
) -> Audit:
    """Make the checks of `auditing.checks.CHECKS` with some documents of a text.

    Parameters
    ----------
    model : str, path or LanguageModel
        A model folder of ours or of Hugging Face, or a name on its hub; or a model in memory.
    texts : path, iterable of str, DataFrame or Arrow table
        A file with one document a line or row, or the documents; a str is a path.
    vocabulary : Vocabulary, optional
        That of a model in memory.
    field : str, optional
        Field or column of the texts in JSONL or Parquet (default: text).
    documents : int
        How many are looked at; they are drawn at random.
    check : str or sequence of str, optional
        This check, or these, alone.
    rosetta : bool
        Whether the numbers of other programs are worked out, for the whole text, which is then
        held as those programs hold it.
    precision : "float32", "bfloat16" or "float16"
        What the weights of a folder are rounded to; tolerances follow it.
    seed : int
        Of what is drawn.
    threads : int, optional
        CPU threads of this call (default: as PyTorch has them).
    device : str
        Where the model of a folder goes: auto, cpu or cuda.

    Returns
    -------
    Audit
        ``sound``, ``alarms``, ``table`` with a row a check (see `Result`), and with `rosetta` the
        table of that name.

    Raises
    ------
    InputError
        When the model or the text cannot be read, there is no such check, or the extra ``models``
        is not installed.
    """
    check_numbers(1, documents=documents, threads=threads)
    check_numbers(0, seed=seed)
    check = [check] if isinstance(check, str) else check
    with extras_named():
        from beyond_perplexity.auditing.audited_texts import audit_texts
        from beyond_perplexity.models.contract import LanguageModel
    if not isinstance(model, LanguageModel):
        check_path_or_name("model", model)
    if isinstance(check, bytes) or not isinstance(check, Iterable | None):
        raise InputError(
            f"check: is of type {type(check).__name__}; give a name, or a list of them"
        )
    with GivenFiles() as given:
        path = given.texts(texts, "texts", field=field)
        with extras_named(), torch_kept(threads):
            findings, numbers = audit_texts(
                model,
                path,
                vocabulary=vocabulary,
                field=field,
                documents=documents,
                check=check,
                rosetta=rosetta,
                precision=precision,
                seed=seed,
                device=device,
            )
    name = str(model) if isinstance(model, str | Path) else type(model).__name__
    return Audit(name, findings, numbers)
