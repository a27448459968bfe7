"""A client for Rowhouse in one file: Python 3.9 or newer, standard library only. Copy it into your project."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import time
import urllib.parse
import urllib.request
from datetime import date
from decimal import Decimal
from typing import Any, Iterator, Mapping, Sequence
from uuid import UUID

Row = dict[str, Any]


class RowhouseError(Exception):
    """The service refused a request, or could not be reached (code "unreachable", status 0).

    Programs decide by `code`; `message` and `hint` are for people; `request_id` finds the request in the service's log.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int = 0,
        hint: str | None = None,
        details: Any = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(f"{message} {hint}" if hint else message)
        self.code = code
        self.message = message
        self.status = status
        self.hint = hint
        self.details = details
        self.request_id = request_id


class InvalidToken(Exception):
    """A token that is not to be trusted."""


class Client:
    """One project, by its address and key. `timeout`: seconds without a word from the service; a query has 30."""

    def __init__(self, url: str, api_key: str, project: str, *, timeout: float = 35) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError("The address begins with http:// or https://.")
        if not (api_key.isascii() and api_key.isprintable()):
            raise ValueError("The API key holds a line break or a character that no key has.")
        self._base = f"{url.rstrip('/')}/api/dbaas/v2/projects/{_segment(project)}"
        self._headers = {"Authorization": f"Bearer {api_key}", "Accept": "application/json"}
        self._timeout = timeout

    def sign_up(self, email: str, password: str, data: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A new user: `{"user": …, "session": …}`."""
        body = {"email": email, "password": password, **({} if data is None else {"data": data})}
        return self._request("POST", "/auth/signup", body)

    def sign_in(self, email: str, password: str) -> dict[str, Any]:
        return self._request("POST", "/auth/signin", {"email": email, "password": password})

    def query(self, sql: str, params: Sequence[Any] = (), *, limit: int | None = None) -> dict[str, Any]:
        """One statement, with values for `$1 … $n`: `{"rows": …, "columns": …, "affected": …, "truncated": …}`."""
        body = {"query": sql, "params": list(params), **({} if limit is None else {"limit": limit})}
        return self._request("POST", "/query", body)

    def insert(self, table: str, row: Mapping[str, Any]) -> Row:
        """The row as it was stored, defaults included."""
        return self._request("POST", f"/tables/{_segment(table)}", row)["row"]

    def insert_many(self, table: str, rows: Sequence[Mapping[str, Any]]) -> list[Row]:
        """All of them or none."""
        return self._request("POST", f"/tables/{_segment(table)}", list(rows))["rows"]

    def page(self, table: str, /, **parameters: Any) -> dict[str, Any]:
        """One page: `limit`, `page`, `cursor`, `select`, `order`, and filters such as `price="lt.10"`."""
        return self._request("GET", f"/tables/{_segment(table)}?{urllib.parse.urlencode(parameters)}")

    def pages(self, table: str, /, **parameters: Any) -> Iterator[list[Row]]:
        """All pages, by cursor: each costs the same, however deep. Views have none, and go by number."""
        always = {name: value for name, value in parameters.items() if name not in ("page", "cursor")}
        number = int(parameters.get("page", 1))
        answer = self.page(table, **parameters)
        yield answer["rows"]
        while answer["has_more"]:
            number += 1
            cursor = answer["next_cursor"]
            following = {"page": number} if cursor is None else {"cursor": cursor}
            answer = self.page(table, **always, **following)
            yield answer["rows"]

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(self._base + path, method=method, headers=self._headers)
        if body is not None:
            request.data = json.dumps(body, default=_text, allow_nan=False).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with _opener.open(request, timeout=self._timeout) as response:
                status, text = response.status, response.read()
        except (OSError, http.client.HTTPException) as problem:
            raise RowhouseError("unreachable", f"There was no answer from the service: {problem}.") from problem
        answer = _read(status, text)
        if answer.get("ok") is True:
            return answer
        error = answer.get("error") or {}
        raise RowhouseError(
            error.get("code", "unknown"),
            error.get("message", "No reason was given."),
            status=status,
            hint=error.get("hint"),
            details=error.get("details"),
            request_id=answer.get("request_id"),
        )


def verify_token(token: str, key: str, project: str) -> dict[str, Any]:
    """The claims of a user's access token, checked with nothing but the project key; or InvalidToken.

    It cannot see whether the user has signed out meanwhile: the service does, wherever the token is used.
    """
    parts = token.split(".")
    if len(parts) != 3:
        raise InvalidToken("it has not three parts")
    # The signature comes first, and always by HS256: nothing of a stranger's is parsed, nor chooses the algorithm.
    made = hmac.new(key.encode(), f"{parts[0]}.{parts[1]}".encode(), hashlib.sha256).digest()
    if not hmac.compare_digest(base64.urlsafe_b64encode(made).rstrip(b"="), parts[2].encode()):
        raise InvalidToken("its signature is wrong")
    header, claims = (_decode(part) for part in parts[:2])
    if header.get("alg") != "HS256":
        raise InvalidToken("its algorithm is not HS256")
    if claims.get("iss") != f"rowhouse-auth:{project}":
        raise InvalidToken("it is of another project")
    if not isinstance(claims.get("exp"), int) or claims["exp"] <= time.time():
        raise InvalidToken("it has expired")
    return claims


class _AsItComes(urllib.request.HTTPErrorProcessor):
    """A refusal is read like any answer, and nobody who redirects a request gets the key."""

    def http_response(self, request: Any, response: Any) -> Any:
        return response

    https_response = http_response


_opener = urllib.request.build_opener(_AsItComes)


def _segment(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def _read(status: int, text: bytes) -> dict[str, Any]:
    """Integers are exact in Python; numbers with a fraction become Decimal, so that no digit is lost."""
    try:
        answer = json.loads(text, parse_float=Decimal)
        if not isinstance(answer, dict):
            raise ValueError("no object")
    except ValueError as problem:
        message = f"This is no answer of Rowhouse (HTTP {status}): {problem}."
        raise RowhouseError("unexpected_answer", message, status=status) from problem
    return answer


def _text(value: Any) -> str:
    """What JSON has no form for goes as text, which PostgreSQL reads. Inside a json column it stays a string."""
    if isinstance(value, (Decimal, date, UUID)):
        return str(value)
    raise TypeError(f"A {type(value).__name__} cannot be sent.")


def _decode(part: str) -> dict[str, Any]:
    try:
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidToken("it holds no JSON object")
    return value
