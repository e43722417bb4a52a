"""Pages in a real browser, Debian's `chromium`: what it logs, and where it lays things out."""

import html
import json
import re
import shutil
import subprocess

CHROMIUM = shutil.which("chromium")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--enable-logging=stderr", "--virtual-time-budget=20000", "--window-size=1600,1000"),
    "--dump-dom",
]
# A window has 500 pixels at least, a frame may have fewer.
FRAME = """<!doctype html><body><script>
addEventListener("message", (one) => { document.body.dataset.measured = one.data; });
</script><iframe src="measured.html" style="border: 0; width: %dpx; height: 1000px"></iframe>"""
MEASURE = """<script>setTimeout(() => parent.postMessage(JSON.stringify({
  inner: innerWidth, wide: document.documentElement.scrollWidth, %s
}), "*"), 5000)</script></body>"""


def browse(page, profile):
    """Open a page; return its content after the scripts have run, and what the console said."""
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def measure(text, width, folder, script=""):
    """Lay a page out in a window of so many pixels: its width, and what a script says of it."""
    (folder / "measured.html").write_text((MEASURE % script).join(text.rsplit("</body>", 1)))
    (folder / "frame.html").write_text(FRAME % width)
    content, _ = browse(folder / "frame.html", folder / f"profile-{width}")
    found = re.search(r'data-measured="([^"]*)"', content)
    assert found, content[:2000]
    held = json.loads(html.unescape(found[1]))
    assert held["inner"] == width
    return held
