"""Whether the probabilities of a model are what they claim to be, from a program."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from beyond_perplexity.auditing import checks
from beyond_perplexity.auditing.checks import choose_texts, filled_texts
from beyond_perplexity.corpus.external import read_cleaned
from beyond_perplexity.errors import extras_named
from beyond_perplexity.library import calls
from beyond_perplexity.library.call_options import AuditOptions
from beyond_perplexity.library.result import Result
from beyond_perplexity.models.served.protocols import ASKED
from beyond_perplexity.storage.accounts import Account

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

AUDIT_COLUMNS = [*checks.Finding._fields[:-1], "unit", "because"]


class Audit(Result):
    """What an audit found; its table has a row a check, the table ``rosetta`` a row a number.

    `numbers` of other programs, and ours beside them, are empty where they were not asked for;
    `known` is the table of the checks.

    Attributes
    ----------
    sound : bool
        No check fails.
    failed_checks : list of str
        The checks that do and that no other failed check explains.
    """

    def __init__(
        self,
        model: str,
        findings: Sequence[checks.Finding],
        numbers: Sequence[checks.PrintedNumber],
        known: Mapping[str, checks.Check] = checks.CHECKS,
    ) -> None:
        import pandas as pd

        rows = [{**one._asdict(), "unit": known[one.check].unit} for one in findings]
        self.sound = all(one.sound for one in findings)
        self.failed_checks = [one.check for one in findings if not one.sound and not one.because]
        programs = checks.PROGRAMS
        others = [one._asdict() | {"version": programs[one.program].version} for one in numbers]
        rosetta = pd.DataFrame(others, columns=[*checks.PrintedNumber._fields, "version"])
        summary = {"model": model, "sound": self.sound, "failed_checks": self.failed_checks}
        lines = [*checks.describe_findings(findings), *checks.describe_numbers(numbers)]
        table = pd.DataFrame(rows, columns=AUDIT_COLUMNS)
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


def _unused(given: AuditOptions) -> Iterator[calls.Unused]:
    if given.url is None:
        yield "without a url", ASKED
    else:
        yield "with a server", ("model", "device", *(() if given.rosetta else ("end",)))
    if given.url is not None or isinstance(given.model, str | Path):
        yield "with a model that has its own", ("vocabulary", "tokenizer")
    else:
        yield "with a model in memory", ("precision", "device")
    if calls.of_strings(given.texts):
        yield "on texts in memory", ("field",)


@calls.library_function(AuditOptions, _unused)
def audit(given: AuditOptions) -> Audit:
    """Make the checks of `auditing.checks.CHECKS` with some documents of a text.

    Returns
    -------
    Audit
        ``sound``, ``failed_checks``, ``table`` with a row a check (see `Result`), and with
        `rosetta` the table of that name.

    Raises
    ------
    InputError
        When the model or the text cannot be read, there is no such check, or the extra ``models``
        is not installed.
    """
    model, check = given.model, given.check
    check = [check] if isinstance(check, str) else check
    if isinstance(check, bytes) or not isinstance(check, Iterable | None):
        raise calls.wrong_type("check", check, "a name, or a list of them")
    calls.check_named("audit", given)
    if given.url is not None:
        return _of_server(given, None if check is None else list(check))
    with extras_named():
        from beyond_perplexity.auditing import audit as audited_texts
        from beyond_perplexity.models.in_memory import modes_kept
    is_held = not isinstance(model, str | os.PathLike)
    texts = calls.text_source(given.texts, "texts", field=given.field)
    with calls.torch_kept(given.threads), modes_kept(model):
        if is_held:
            named = given.vocabulary if given.tokenizer is None else given.tokenizer
            with extras_named():
                held = audited_texts.held_in_memory(model, named)
        else:
            with extras_named():
                held = audited_texts.load_audited(model, given.device, given.precision)
        findings, numbers = audited_texts.audit_texts(
            held,
            texts,
            field=given.field,
            documents=given.documents,
            check=check,
            rosetta=given.rosetta,
            seed=given.seed,
        )
    return Audit(type(model).__name__ if is_held else str(model), findings, numbers)


def _of_server(given: AuditOptions, names: Sequence[str] | None) -> Audit:
    from beyond_perplexity.auditing.served import audit_server, translate_server
    from beyond_perplexity.models.served.server import ServedModel

    texts = calls.text_source(given.texts, "texts", field=given.field)
    account = Account(texts, "documents")
    filled = filled_texts(read_cleaned(texts, None, field=given.field, account=account), account)
    sizes = given.documents, given.seed
    sample, held = choose_texts(filled, account, *sizes, whole=given.rosetta)
    findings = audit_server(given, sample, names, given.precision)
    numbers = list[checks.PrintedNumber]()
    if held is not None:
        with ServedModel(given) as served:
            numbers = translate_server(served, held)
    return Audit(str(given.url), findings, numbers, checks.SERVED_CHECKS)
