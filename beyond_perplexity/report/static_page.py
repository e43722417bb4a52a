"""A page with all that a run shows, which opens without a script, a server or the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from beyond_perplexity.report.layout import html_page, render
from beyond_perplexity.storage.outputs import write_text

PAGE = "index.html"  # in the folder of the results
OVERVIEW = "overview/overview.rst"


class Shown(NamedTuple):
    """A table or figure: its group, the stem of its files, title, caption (reStructuredText)."""

    group: str
    stem: str
    title: str
    caption: str


def write_static_page(
    results: str | Path, tables: Sequence[Shown], figures: Sequence[Shown]
) -> None:
    """Write the page of those tables and figures that are there; figures stay in their files."""
    folder = Path(results)
    overview = folder / OVERVIEW
    if not overview.exists():
        return
    groups: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for kind, suffix, exhibits in (("figures", "svg", figures), ("tables", "html", tables)):
        for one in exhibits:
            file = folder / f"{one.stem}.{suffix}"
            if file.exists():
                held = {**one._asdict(), "caption": _to_html(one.caption)}
                if kind == "tables":  # what stands in the body of its page
                    page = file.read_text(encoding="utf-8").partition("<body>")[2]
                    held["table"] = page.rpartition("</body>")[0]
                groups.setdefault(one.group, {}).setdefault(kind, []).append(held)
    first = _to_html(overview.read_text(encoding="utf-8"))
    body = render("templates/index.html", overview=first, groups=groups)
    write_text(folder / PAGE, html_page("Language models beyond one perplexity number", body))


def _to_html(text: str) -> str:
    from docutils.core import publish_parts  # late: start-up

    limits = {"line_length_limit": 10_000_000, "report_level": 4, "initial_header_level": 2}
    return str(publish_parts(text, writer="html5", settings_overrides=limits)["html_body"])
