"""Requests: how they are written, sent, repeated and read. What both clients share stands in functions without I/O."""

from __future__ import annotations

import json
import random
import time
import uuid
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any, AsyncIterator, Iterator, Mapping, Optional, Union
from urllib.parse import quote

import httpx

from ._errors import RowhouseError

PREFIX = "/api/dbaas/v2"
#: After floods, the service asks for longer waits. Then the application decides.
LONGEST_WAIT_S = 20.0
#: With these, the service guarantees that the request had no effect.
NOTHING_RAN = frozenset(["rate_limited", "overloaded", "unavailable"])

Query = Mapping[str, Optional[Union[str, int]]]


@dataclass(frozen=True)
class Call:
    """A request. `content` is sent as it is, `body` as JSON."""

    method: str
    path: tuple[str, ...]
    query: Query = field(default_factory=dict)
    body: Any = None
    content: Any = None
    content_type: str | None = None
    accept: str | None = None
    token: str | None = None
    #: True makes a key for this call.
    idempotency_key: str | bool | None = None
    timeout: float | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be sent again after a lost response."""
        return self.method == "GET" or bool(self.idempotency_key)


@dataclass(frozen=True)
class Settings:
    url: str
    api_key: str
    timeout: float
    retries: int

    @staticmethod
    def of(url: str, api_key: str, timeout: float, retries: int) -> Settings:
        if not api_key:
            raise ValueError("api_key is missing. Is the environment variable set that it comes from (ROWHOUSE_API_KEY)?")
        if not (api_key.isascii() and api_key.isprintable()) or " " in api_key:
            raise ValueError("api_key has a space, a line break or a character that no key has.")
        if not url.startswith(("http://", "https://")):
            raise ValueError("The url begins with http:// or https://.")
        base = url.rstrip("/")
        return Settings(base[: -len(PREFIX)] if base.endswith(PREFIX) else base, api_key, timeout, retries)

    def request(self, client: httpx.Client | httpx.AsyncClient, call: Call, key: str | None) -> httpx.Request:
        segments = [quote(text, safe="") for text in call.path]
        if any(text in ("", ".", "..") for text in call.path):
            raise ValueError('A slug, table or id is empty, "." or "..".')
        headers = {"X-API-Key": self.api_key}
        if call.token:
            headers["Authorization"] = f"Bearer {call.token}"
        if call.accept:
            headers["Accept"] = call.accept
        if key:
            headers["Idempotency-Key"] = key
        content = call.content
        if call.content_type:
            headers["Content-Type"] = call.content_type
        elif call.body is not None:
            headers["Content-Type"] = "application/json"
            content = to_json(call.body)
        query = {name: str(value) for name, value in call.query.items() if value is not None}
        return client.build_request(
            call.method,
            f"{self.url}{PREFIX}/{'/'.join(segments)}",
            params=query,
            headers=headers,
            content=content,
            timeout=max(self.timeout, call.timeout or 0),
        )


class Sender:
    """Sends requests and waits for them."""

    def __init__(self, settings: Settings, http: httpx.Client | None) -> None:
        self._settings = settings
        self._owned = http is None
        # No redirects: they would take the key to another server.
        self._http = http or httpx.Client(follow_redirects=False)

    def send(self, call: Call) -> Any:
        key = key_of(call)
        for attempt in range(self._settings.retries + 1):
            try:
                response = self._http.send(self._settings.request(self._http, call, key))
                return read(response.status_code, response.headers, response.content)
            except (RowhouseError, httpx.HTTPError) as problem:
                pause = wait_before(problem, call, attempt, self._settings.retries)
                if pause is None:
                    raise explain(problem, self._settings.url) from problem
                time.sleep(pause)
        raise AssertionError

    def stream(self, call: Call) -> Iterator[bytes]:
        try:
            response = self._http.send(self._settings.request(self._http, call, None), stream=True)
            try:
                if response.status_code != 200:
                    read(response.status_code, response.headers, response.read())
                yield from response.iter_bytes()
            finally:
                response.close()
        except httpx.HTTPError as problem:
            raise explain(problem, self._settings.url) from problem

    def close(self) -> None:
        if self._owned:
            self._http.close()


class AsyncSender:
    """The same for asyncio."""

    def __init__(self, settings: Settings, http: httpx.AsyncClient | None) -> None:
        self._settings = settings
        self._owned = http is None
        self._http = http or httpx.AsyncClient(follow_redirects=False)

    async def send(self, call: Call) -> Any:
        import asyncio

        key = key_of(call)
        for attempt in range(self._settings.retries + 1):
            try:
                response = await self._http.send(self._settings.request(self._http, call, key))
                return read(response.status_code, response.headers, response.content)
            except (RowhouseError, httpx.HTTPError) as problem:
                pause = wait_before(problem, call, attempt, self._settings.retries)
                if pause is None:
                    raise explain(problem, self._settings.url) from problem
                await asyncio.sleep(pause)
        raise AssertionError

    async def stream(self, call: Call) -> AsyncIterator[bytes]:
        try:
            response = await self._http.send(self._settings.request(self._http, call, None), stream=True)
            try:
                if response.status_code != 200:
                    read(response.status_code, response.headers, await response.aread())
                async for piece in response.aiter_bytes():
                    yield piece
            finally:
                await response.aclose()
        except httpx.HTTPError as problem:
            raise explain(problem, self._settings.url) from problem

    async def close(self) -> None:
        if self._owned:
            await self._http.aclose()


def key_of(call: Call) -> str | None:
    return str(uuid.uuid4()) if call.idempotency_key is True else (call.idempotency_key or None)


def wait_before(problem: Exception, call: Call, attempt: int, retries: int) -> float | None:
    """Seconds until the request is sent again. None: it is not, because it may have run, or it was tried often enough."""
    is_read_once = hasattr(call.content, "__next__") or hasattr(call.content, "__anext__")
    if attempt >= retries or is_read_once:
        return None
    after = 0.0
    if isinstance(problem, RowhouseError):
        retryable = isinstance(problem.details, dict) and problem.details.get("retryable") is True
        if problem.code not in NOTHING_RAN and not (call.is_repeatable and retryable):
            return None
        after = problem.retry_after or 0.0
    elif not call.is_repeatable:
        return None
    return None if after > LONGEST_WAIT_S else after + 0.2 * 2**attempt * (0.5 + random.random() / 2)


def explain(problem: Exception, url: str) -> Exception:
    if not isinstance(problem, httpx.HTTPError):
        return problem
    code = "timeout" if isinstance(problem, httpx.TimeoutException) else "network_error"
    return RowhouseError(code, f"There was no answer from the service: {str(problem) or type(problem).__name__} ({url}).")


def read(status: int, headers: Mapping[str, str], content: bytes) -> Any:
    try:
        answer = from_json(content)
        if not isinstance(answer, dict):
            raise ValueError("no object")
    except ValueError as problem:
        message = f"This is not an answer of Rowhouse (HTTP {status}). Check the url."
        raise RowhouseError("invalid_response", message, status=status) from problem
    if answer.get("ok") is True and status < 300:
        return answer
    error = answer.get("error") or {}
    after = headers.get("retry-after") or ""
    raise RowhouseError(
        error.get("code", "invalid_response"),
        error.get("message", "No reason was given."),
        status=status,
        hint=error.get("hint"),
        details=error.get("details"),
        sql=error.get("sql"),
        request_id=answer.get("request_id"),
        retry_after=float(after) if after.isdigit() else None,
    )


def from_json(text: bytes | str) -> Any:
    """Integers are exact in Python; numbers with a fraction become Decimal, so that no digit is lost."""
    return json.loads(text, parse_float=Decimal)


def to_json(value: Any) -> bytes:
    return json.dumps(value, default=_text, allow_nan=False).encode()


def _text(value: Any) -> str:
    """What JSON has no form for goes as text, which PostgreSQL reads. Inside a json column it stays a string."""
    if isinstance(value, (Decimal, uuid.UUID)):
        return str(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return f"\\x{value.hex()}"
    raise TypeError(f"A {type(value).__name__} cannot be sent.")
