"""The report: opened in a real browser, without a complaint on its console, every figure drawn.

Needs Snakemake and Debian's `chromium`. The oracle is the browser: what it logs and what it draws.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.workflow.conftest import SMOKE

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=20000",
    "--dump-dom",
]
PROBE = """<!doctype html><title>waiting</title><script>
const uris = %s;
Promise.all(Object.entries(uris).map(([name, uri]) => new Promise(done => {
  const image = new Image();
  image.onload = () => done([name, image.naturalWidth * image.naturalHeight]);
  image.onerror = () => done([name, 0]);
  image.src = uri;
}))).then(sizes => {
  document.body.textContent = "drawn=" + JSON.stringify(Object.fromEntries(sizes)) + "=end";
});
</script><body></body>"""


def browse(page: Path, profile: Path, *more: str) -> tuple[str, list[str]]:
    """Open a page; return its content after the scripts have run, and what the console said."""
    command = [str(CHROMIUM), *FLAGS, *more, f"--user-data-dir={profile}", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def report(finished):
    """Make the report of the finished run."""
    finished.snakemake(*SMOKE, "--report", "results/report.html")
    return finished.path / "results" / "report.html"


def test_the_first_page_opens_without_a_complaint(report, tmp_path):
    content, console = browse(report, tmp_path / "profile")
    assert [line for line in console if "rror" in line] == []
    assert "Language models beyond one perplexity number" in content
    assert "How likely is human text under the models?" in content
    assert "Trigram, ancestral" in content


def test_every_figure_is_drawn(report, tmp_path):
    text = report.read_text(encoding="utf-8")
    held = re.search(r"var results = (\{.*?\});?\s*</script>", text, flags=re.DOTALL)
    results = json.loads(held[1])
    figures = {name: r["data_uri"] for name, r in results.items() if name.endswith(".svg")}
    first_page = re.search(r"data:image/svg\+xml;base64,[A-Za-z0-9+/=]+", text)
    probe = tmp_path / "probe.html"
    probe.write_text(PROBE % json.dumps({**figures, "first page": first_page[0]}))
    content, console = browse(probe, tmp_path / "profile")
    drawn = json.loads(re.search(r"drawn=(\{.*?\})=end", content)[1])
    assert console == []
    assert len(drawn) == len(figures) + 1 >= 11
    assert min(drawn.values()) > 10_000, drawn


def test_every_table_and_figure_has_a_caption(report):
    text = report.read_text(encoding="utf-8")
    results = json.loads(re.search(r"var results = (\{.*?\});?\s*</script>", text, re.DOTALL)[1])
    captions = {name: re.sub("<[^>]*>", "", result["caption"]) for name, result in results.items()}
    assert len(captions) >= 16
    assert min(len(caption.strip()) for caption in captions.values()) > 30, captions


MEASURE = """<script>setTimeout(() => {
  const box = (one) => document.querySelector(one).getBoundingClientRect();
  const lines = [...document.querySelectorAll(".prose > *, .prose table")];
  document.body.dataset.measured = JSON.stringify({
    first: Math.min(...lines.map((one) => one.getBoundingClientRect().left)),
    last: Math.max(...lines.map((one) => one.getBoundingClientRect().right)),
    sidebar: box("nav").right, below: box("nav").bottom, top: box(".prose").top,
    graph: box("#rulegraph").height,
    inner: innerWidth, wide: document.documentElement.scrollWidth,
  });
}, 5000)</script></body>"""


@pytest.mark.parametrize("width", [390, 1280, 1440])
def test_no_line_of_the_first_page_lies_under_the_sidebar_or_beyond_the_window(
    report, tmp_path, width
):
    """Oracle: the places of lines as the browser lays them out; a wide table is put in."""
    text = report.read_text(encoding="utf-8")
    wide = "<table><tr>" + "<td>Importance&nbsp;sampling</td>" * 30 + "</tr></table>"
    text, count = re.subn(r'(var workflow_desc = ")', lambda m: m[1] + wide, text)
    assert count == 1
    page = tmp_path / "report.html"
    page.write_text(MEASURE.join(text.rsplit("</body>", 1)))
    content, _ = browse(page, tmp_path / "profile", f"--window-size={width},1000")
    found = json.loads(html.unescape(re.search(r'data-measured="([^"]*)"', content)[1]))
    assert found["inner"] == width
    assert found["graph"] == 0
    if width > 700:
        assert found["first"] >= found["sidebar"]
    else:
        assert found["top"] >= found["below"]
    assert found["last"] <= width
    assert found["wide"] <= width
