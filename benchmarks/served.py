"""Documents a second of a served model: this package against a plain asynchronous client.

    python -m benchmarks.served [--documents 400] [--latency 0.02]

A server of a tiny model in a process of its own waits so many seconds before each answer; both have
16 requests under way. The plain client reads the JSON of each answer, and does nothing with it.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import median

import httpx2

from beyond_perplexity.models.served.journal import Journal
from beyond_perplexity.models.served.protocols import ServedOptions
from beyond_perplexity.models.served.server import ServedModel
from tests.unit.fake_server import FakeServer
from tests.unit.huggingface_models import make_gpt2

IN_FLIGHT = 16


def serve(pipe: Connection, latency: float) -> None:
    """Serve until something comes through the pipe."""
    with tempfile.TemporaryDirectory() as folder:
        make_gpt2(folder)
        with FakeServer(folder, latency=latency) as fake:
            pipe.send(fake.url)
            pipe.recv()


async def plain(url: str, texts: Sequence[str]) -> None:
    """Post all texts, so many at once."""
    limits = httpx2.Limits(max_connections=IN_FLIGHT, max_keepalive_connections=IN_FLIGHT)
    free = asyncio.Semaphore(IN_FLIGHT)
    async with httpx2.AsyncClient(limits=limits, timeout=60) as client:

        async def ask(text: str) -> object:
            body = {"model": "tiny", "prompt": text, "echo": True, "logprobs": 1, "max_tokens": 1}
            async with free:
                return (await client.post(f"{url}/v1/completions", json=body)).json()

        await asyncio.gather(*map(ask, texts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--latency", type=float, default=0.02, help="seconds")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each")
    options = parser.parse_args()
    texts = [f"the cat sat on mat {number} and slept" for number in range(options.documents)]
    context = get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=serve, args=(there, options.latency), daemon=True)
    server.start()
    url = here.recv()
    ratios = []
    with ServedModel(ServedOptions(url=url, concurrency=IN_FLIGHT)) as served:
        for number in range(options.rounds + 1):
            begun = time.perf_counter()
            asyncio.run(plain(url, texts))
            between = time.perf_counter()
            scored = list(served.score(((text, text) for text in texts), Journal()))
            ended = time.perf_counter()
            assert len(scored) == len(texts)
            if number:  # the first round warms both
                ratios.append((between - begun) / (ended - between))
                print(f"plain client, documents/s {len(texts) / (between - begun):>8,.0f}")
                print(f"this package, documents/s {len(texts) / (ended - between):>8,.0f}")
    print(f"ratio                     {median(ratios):>8.2f}")
    here.send(None)
    server.join()


if __name__ == "__main__":
    main()
