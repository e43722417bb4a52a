"""The report: opened in a real browser, without a complaint on its console, every figure drawn.

Needs Snakemake and Debian's `chromium`. The oracle is the browser: what it logs and what it draws.
"""

import json
import re

import pytest

from tests.browser import CHROMIUM, browse, measure
from tests.workflow.conftest import SMOKE

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

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


@pytest.fixture(scope="module")
def report(finished):
    finished.snakemake(*SMOKE, "--report", "results/report.html")
    return finished.path / "results" / "report.html"


def test_the_first_page_opens_without_a_complaint(report, tmp_path):
    content, console = browse(report, tmp_path / "profile")
    assert [line for line in console if "rror" in line] == []
    assert "Language models beyond one perplexity number" in content
    assert "How likely is human text under the models?" in content
    assert "Trigram, ancestral" in content


def test_every_table_and_figure_has_a_caption_and_is_drawn(report, tmp_path):
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
    text = report.read_text(encoding="utf-8")
    results = json.loads(re.search(r"var results = (\{.*?\});?\s*</script>", text, re.DOTALL)[1])
    captions = {name: re.sub("<[^>]*>", "", result["caption"]) for name, result in results.items()}
    assert len(captions) >= 16
    assert min(len(caption.strip()) for caption in captions.values()) > 30, captions


PLACES = """...(() => {
  const box = (one) => document.querySelector(one).getBoundingClientRect();
  const lines = [...document.querySelectorAll(".prose > *, .prose table")];
  return {
    first: Math.min(...lines.map((one) => one.getBoundingClientRect().left)),
    last: Math.max(...lines.map((one) => one.getBoundingClientRect().right)),
    sidebar: box("nav").right, below: box("nav").bottom, top: box(".prose").top,
    graph: box("#rulegraph").height,
  };
})()"""


@pytest.mark.parametrize("width", [390, 1280, 1440])
def test_no_line_of_the_first_page_lies_under_the_sidebar_or_beyond_the_window(
    report, tmp_path, width
):
    """Oracle: the places of lines as the browser lays them out; a wide table is put in."""
    text = report.read_text(encoding="utf-8")
    wide = "<table><tr>" + "<td>Importance&nbsp;sampling</td>" * 30 + "</tr></table>"
    text, count = re.subn(r'(var workflow_desc = ")', lambda m: m[1] + wide, text)
    assert count == 1
    found = measure(text, width, tmp_path, PLACES)
    assert found["graph"] == 0
    if width > 700:
        assert found["first"] >= found["sidebar"]
    else:
        assert found["top"] >= found["below"]
    assert max(found["last"], found["wide"]) <= width
