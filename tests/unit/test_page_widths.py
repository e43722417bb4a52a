"""Pages fit a telephone and a laptop: what is wide scrolls in a box of its own.

Needs Debian's `chromium`. Oracle: the width that the browser gives the page.
"""

import pytest

from beyond_perplexity.library.compare import compare
from beyond_perplexity.report.layout import html_page
from tests.browser import CHROMIUM, measure

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    for name in ("human", "of_a_model_with_the_longest_name_that_anybody_has_ever_given"):
        lines = (f"the cat {'sat ' * (k % 7)}on mat {k} ." for k in range(60))
        (folder / f"{name}.txt").write_text("\n".join(lines))
    files = sorted(folder.glob("*.txt"), reverse=True)
    compare(*files, permutations=99, bootstrap=0, out=folder / "out")
    wide = "<div class='wide'><table><tr>" + "<td>a wide cell</td>" * 60 + "</tr></table></div>"
    return {
        "of a comparison": (folder / "out" / "compare.html").read_text(),
        "of a wide table": html_page("t", wide),
        "that does not fit": html_page("t", "<div style='width: 1300px'>wide</div>"),
    }


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["of a comparison", "of a wide table", "that does not fit"])
def test_a_page_scrolls_up_and_down_alone(pages, tmp_path, name, width):
    fits = measure(pages[name], width, tmp_path)["wide"] <= width
    assert fits == (name != "that does not fit")
