"""HTTP to a server of models: many requests at once, patience, one line for what goes wrong."""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Thread
from typing import Any, Self, TypeVar

import httpx2

from beyond_perplexity.errors import InputError
from beyond_perplexity.foreign_text import remark
from beyond_perplexity.models.served.protocols import KEY

_T = TypeVar("_T")
_BUSY = (429, 503)  # the server says that it will do it later
_BROKEN = (0, 408, 500, 502, 504, 529)  # it may be up again soon; 0: there is no answer
_LONGEST_PAUSE = 30.0  # seconds, unless the server asks for a longer one
_ABSENT = 2.0  # seconds for which one that has never answered is looked for
_TIMEOUT = httpx2.Timeout(600.0, connect=10.0, pool=None)


class RefusedError(InputError):
    """A server refuses a request, and would again."""


def api_address(url: str) -> str:
    """Return the address below which an API has its paths; ``/v1`` where `url` has no path."""
    # What is wrong is not said with the address, which may have a key in it.
    try:
        held = httpx2.URL(url if "://" in url else f"http://{url}")
    except (httpx2.InvalidURL, TypeError):
        held = httpx2.URL()
    if held.scheme not in ("http", "https") or not held.host:
        raise InputError("url: is no address of a server; give one like http://localhost:8000")
    if held.userinfo or held.query or held.fragment:
        raise InputError(f"url: has more than a host and a path; give a key in {KEY} alone")
    path = held.path.rstrip("/") or "/v1"
    return f"{held.scheme}://{held.netloc.decode()}{path}"


def seconds_asked(headers: Mapping[str, str]) -> float:
    """Return how long a server asks to wait (Retry-After: seconds or a date); 0: it does not."""
    asked = headers.get("retry-after", "")
    with suppress(ValueError, TypeError):
        if asked.strip().isdigit():
            return float(asked)
        return max(0.0, (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds())
    return 0.0


class Client:
    """Requests to one server, from an event loop in its own thread; `pause` doubles at each retry,
    for `patience` seconds where the server is busy, `repair` where it is broken or gone."""

    def __init__(
        self,
        url: str,
        concurrency: int = 16,
        *,
        pause: float = 0.5,
        patience: float = 600.0,
        repair: float = 30.0,
    ) -> None:
        self.url = api_address(url)
        self._concurrency, self._pause = concurrency, pause
        self._patience = dict.fromkeys(_BUSY, patience) | dict.fromkeys(_BROKEN, repair)
        self._key = os.environ.get(KEY, "").strip()
        if not re.fullmatch(r"[!-~]*", self._key):
            raise InputError(f"{KEY}: has characters that no key has; set it again")
        self._told = self._answered = False

    def __enter__(self) -> Self:
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        limits = httpx2.Limits(
            max_connections=self._concurrency, max_keepalive_connections=self._concurrency
        )
        self._http = httpx2.AsyncClient(headers=headers, limits=limits, timeout=_TIMEOUT)
        self._free = asyncio.Semaphore(self._concurrency)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._http.aclose()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Do work in the loop, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def in_order(self, works: Iterable[Coroutine[Any, Any, _T]]) -> Iterator[_T]:
        """Do works at once, some more than there are requests, and yield results in order; those
        under way when this is left are cancelled as the client closes."""
        waiting = deque[Any]()
        for work in works:
            waiting.append(asyncio.run_coroutine_threadsafe(work, self._loop))
            while waiting and (len(waiting) > 4 * self._concurrency or waiting[0].done()):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the JSON that the server answers; a path from / is below its host."""
        return await self._request("POST", path, body)

    async def get(self, path: str) -> Any:
        """Return the JSON of a path; see `post`."""
        return await self._request("GET", path, None)

    async def _request(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        host = self.url if not path.startswith("/") else re.sub(r"(/v\d+)?$", "", self.url)
        address = f"{host}/{path.lstrip('/')}"
        waited, pause = 0.0, self._pause
        async with self._free:
            while True:
                answer, fault = None, ""
                try:
                    answer = await self._http.request(method, address, json=body)
                except httpx2.TransportError as error:
                    late = isinstance(error, httpx2.TimeoutException)
                    waited += late * (_TIMEOUT.read or 0.0)  # that was long enough
                    fault = f"does not answer ({type(error).__name__}: {self._safe(str(error))})"
                status = answer.status_code if answer is not None else 0
                self._answered |= answer is not None
                patience = self._patience.get(status, 0.0)
                patience = patience if self._answered else min(patience, _ABSENT)
                if answer is not None and status not in self._patience:
                    return self._read(answer, address)
                asked = seconds_asked(answer.headers) if answer is not None else 0.0
                wait = max(pause, asked)
                fault = fault or f"answers {status}{self._reason(answer)}"
                if waited + wait > patience:
                    fault += f", and asks to wait {asked:,.0f} seconds" if asked else ""
                    was = f"after {waited:,.0f} seconds of waiting"
                    raise InputError(f"{self.url}: {fault} {was}; call this again later")
                if not self._told:
                    self._told = True
                    remark(f"{self.url}: {fault}; it is asked again, for some minutes at most")
                await asyncio.sleep(wait)
                waited += wait
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _read(self, answer: httpx2.Response, address: str) -> Any:
        status = answer.status_code
        if status in (401, 403):
            done = "refuses the key in" if self._key else "wants a key; set"
            raise InputError(f"{self.url}: answers {status}: it {done} {KEY}")
        if not answer.is_success:
            raise RefusedError(f"{address}: answers {status}{self._reason(answer)}")
        try:
            return answer.json()
        except (ValueError, RecursionError) as error:
            kind = "HTML" if answer.text.lstrip()[:1] == "<" else "no JSON"
            advice = "give the address of its API, such as http://localhost:8000/v1"
            raise InputError(f"{address}: answers {kind}; {advice}") from error

    def _reason(self, answer: httpx2.Response | None) -> str:
        """Return what an answer says of an error, in short, and without the key."""
        if answer is None:
            return ""
        try:
            held = answer.json()
        except (ValueError, RecursionError):
            text = answer.text.strip()
            return (
                " with a page of HTML" if text[:1] == "<" else f" ({self._safe(text)})" * bool(text)
            )
        for name in ("error", "message", "detail"):
            held = held.get(name, held) if isinstance(held, dict) else held
        return f" ({self._safe(str(held))})"

    def _safe(self, text: str) -> str:
        return (text.replace(self._key, "…") if self._key else text)[:300]
