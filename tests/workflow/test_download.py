"""Corpora by URL: a local web server stands for the real one; checksums decide what is kept.

Needs Snakemake's HTTP storage plugin. The oracle is the file that the server serves.
"""

import hashlib
import http.server
import threading
from functools import partial

import pyarrow.parquet as pq
import pytest
import yaml


@pytest.fixture
def served(tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def configure(checkout, url: str, sha256: str) -> None:
    """Make the tiny run read its corpus from a URL."""
    path = checkout.path / "configs" / "smoke.yaml"
    config = yaml.safe_load(path.read_text())
    corpus = config["corpora"]["wikipedia"]
    corpus["source"] = {"format": "text", "paths": [{"url": url, "sha256": sha256}]}
    path.write_text(yaml.safe_dump(config))


def test_a_corpus_is_fetched_and_checked(checkout, served):
    folder, address = served
    text = "".join(f"The document number {n} says hello , it does .\n" for n in range(200))
    (folder / "text.txt").write_text(text)
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    configure(checkout, f"{address}/text.txt", sha256)
    checkout.snakemake("--configfile=configs/smoke.yaml", "corpora")
    documents = pq.read_table(checkout.path / "results/corpora/wikipedia/documents.parquet")
    assert documents.num_rows == 200
    assert (checkout.path / f"results/downloads/{sha256}/text.txt").read_text() == text


def test_another_content_is_refused(checkout, served):
    folder, address = served
    (folder / "text.txt").write_text("<html>moved</html>")
    other = hashlib.sha256(b"another").hexdigest()
    configure(checkout, f"{address}/text.txt", other)
    done = checkout.snakemake("--configfile=configs/smoke.yaml", "corpora", check=False)
    assert done.returncode
    assert f"expected {other}" in done.stdout
    assert "<html>moved" in done.stdout
    assert not list((checkout.path / "results").rglob("text.txt"))
