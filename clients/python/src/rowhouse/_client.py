"""The client of one project that blocks. _async_client.py says the same with await."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, cast

import httpx

from ._calls import DEFAULT_URL, PIECE, Formats, Lines, Statement, TableQuery, batch, inside, statement
from ._http import Call, Sender, Settings
from ._shapes import Page, Result, Row, SignedIn, User
from ._users import Users


@dataclass(frozen=True)
class Table(TableQuery):
    """Rows of a table or view. Iterating gives all rows that match, page after page by cursor."""

    sender: Sender = field(default=cast(Sender, None), repr=False)
    root: tuple[str, ...] = ()

    def _send(self, call: Call) -> Any:
        return self.sender.send(inside(self.root, call))

    def page(self, *, page: Optional[int] = None, cursor: Optional[str] = None) -> Page:
        """One page: 50 rows, unless there is a `limit`."""
        return cast(Page, self._send(self._call("GET", None, {"page": page, "cursor": cursor})))

    def first(self) -> Optional[Row]:
        rows = self._send(self._call("GET", None, {"limit": 1}))["rows"]
        return rows[0] if rows else None

    def pages(self) -> Iterator[List[Row]]:
        """The rows of each page, by cursor: each costs the same, however deep. Views have none, and go by number."""
        size = dict(self.params).get("limit", PIECE)
        place: Dict[str, Any] = {}
        number = 1
        while True:
            answer = self._send(self._call("GET", None, {"limit": size, **place}))
            yield answer["rows"]
            if not answer["has_more"]:
                return
            number += 1
            cursor = answer["next_cursor"]
            place = {"page": number} if cursor is None else {"cursor": cursor}

    def __iter__(self) -> Iterator[Row]:
        for rows in self.pages():
            for row in rows:
                yield row

    def insert(self, row: Mapping[str, Any], *, idempotency_key: str | bool | None = None) -> Row:
        """The row as it was stored, defaults included."""
        return cast(Row, self._send(self._call("POST", row, idempotency_key=idempotency_key))["row"])

    def insert_many(
        self, rows: Sequence[Mapping[str, Any]], *, idempotency_key: str | bool | None = None
    ) -> List[Row]:
        """All of them or none."""
        answer = self._send(self._call("POST", list(rows), idempotency_key=idempotency_key))
        return cast("List[Row]", answer["rows"])

    def upsert(
        self,
        rows: Sequence[Mapping[str, Any]],
        *,
        on_conflict: Optional[Sequence[str]] = None,
        ignore: bool = False,
        idempotency_key: str | bool | None = None,
    ) -> List[Row]:
        """Existing rows with the same key are updated, or, with `ignore`, kept."""
        answer = self._send(self._upsert(list(rows), on_conflict, ignore, idempotency_key))
        return cast("List[Row]", answer["rows"])

    def update(self, changes: Mapping[str, Any], *, max_affected: Optional[int] = None) -> List[Row]:
        """Changes the rows that match the filters. Without a filter, the service refuses it."""
        answer = self._send(self._call("PATCH", changes, {"max_affected": max_affected}))
        return cast("List[Row]", answer["rows"])

    def delete(self, *, max_affected: Optional[int] = None) -> List[Row]:
        answer = self._send(self._call("DELETE", None, {"max_affected": max_affected}))
        return cast("List[Row]", answer["rows"])

    def import_rows(self, format: str, content: Any, *, idempotency_key: str | bool | None = None) -> int:
        """Inserts rows of "csv" or "jsonl" (JSON lines): text, bytes, or an iterable of bytes. All or none."""
        return cast(int, self._send(self._import(format, content, idempotency_key))["row_count"])

    def export_rows(self, format: str) -> Iterator[bytes]:
        """All rows that match, as "csv" or "jsonl", piece by piece."""
        call = self._call("GET", accept=Formats[format])
        for piece in self.sender.stream(inside(self.root, call)):
            yield piece


class Client:
    """One project, by its address and key. `timeout`: seconds until the service says something.

    >>> with Client("http://127.0.0.1:8765", "rh_proj_…", "my-shop") as db:
    ...     rows = db.query("select name from teas where price < $1", [10])["rows"]
    """

    def __init__(
        self,
        url: str,
        api_key: str,
        project: str,
        *,
        timeout: float = 60,
        retries: int = 2,
        http: Optional[httpx.Client] = None,
        user_token: Optional[str] = None,
    ) -> None:
        if not project:
            raise ValueError("project is missing. Is the environment variable set that it comes from (ROWHOUSE_PROJECT)?")
        self._settings = Settings.of(url or DEFAULT_URL, api_key, timeout, retries)
        self._sender = Sender(self._settings, http)
        self._path = ("projects", project)
        self._token = user_token
        self.users = Users(self._sender, self._path)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        self._sender.close()

    def as_user(self, access_token: str) -> Client:
        """The same project, acting as a user: row security decides. It shares the connections of this client."""
        copy = object.__new__(Client)
        copy.__dict__.update(self.__dict__, _token=access_token)
        return copy

    def _send(self, method: str, *path: str, body: Any = None, token: Optional[str] = None, **more: Any) -> Any:
        return self._sender.send(Call(method, (*self._path, *path), body=body, token=token or self._token, **more))

    def query(
        self,
        sql: str,
        params: Sequence[Any] = (),
        *,
        limit: Optional[int] = None,
        timeout_ms: Optional[int] = None,
        read_only: Optional[bool] = None,
        dry_run: Optional[bool] = None,
        max_affected: Optional[int] = None,
        idempotency_key: str | bool | None = None,
    ) -> Result:
        """One statement, with values for `$1 … $n`."""
        body = statement(
            sql,
            params,
            limit=limit,
            timeout_ms=timeout_ms,
            read_only=read_only,
            dry_run=dry_run,
            max_affected=max_affected,
        )
        # Longer than the statement's own, so that the service reports it.
        timeout = None if timeout_ms is None else timeout_ms / 1000 + 10
        answer = self._send("POST", "query", body=body, idempotency_key=idempotency_key, timeout=timeout)
        return cast(Result, answer)

    def stream(self, sql: str, params: Sequence[Any] = ()) -> Iterator[Row]:
        """The rows one by one as they arrive, in constant memory. A result that breaks off raises."""
        lines = Lines()
        for piece in self.export_rows("jsonl", sql, params):
            for row in lines.feed(piece):
                yield row
        for row in lines.end():
            yield row

    def export_rows(self, format: str, sql: str, params: Sequence[Any] = ()) -> Iterator[bytes]:
        """The rows of a statement as "csv" or "jsonl", piece by piece."""
        body = statement(sql, params)
        call = Call("POST", (*self._path, "query"), body=body, token=self._token, accept=Formats[format])
        for piece in self._sender.stream(call):
            yield piece

    def batch(
        self, statements: Sequence[Statement], *, idempotency_key: str | bool | None = None
    ) -> List[Result]:
        """Several statements in one transaction: texts, or {"query": …, "params": […], "expect_affected": 1}."""
        body = {"statements": batch(statements)}
        answer = self._send("POST", "batch", body=body, idempotency_key=idempotency_key)
        return cast("List[Result]", answer["results"])

    def table(self, name: str) -> Table:
        """A table or view: `db.table("teas").gte("price", 4).order("price")`."""
        return Table(name, token=self._token, sender=self._sender, root=self._path)

    def sign_up(self, email: str, password: str, data: Optional[Mapping[str, Any]] = None) -> SignedIn:
        body = {"email": email, "password": password, **({} if data is None else {"data": data})}
        return cast(SignedIn, self._send("POST", "auth", "signup", body=body))

    def sign_in(self, email: str, password: str) -> SignedIn:
        body = {"email": email, "password": password}
        return cast(SignedIn, self._send("POST", "auth", "signin", body=body))

    def refresh(self, refresh_token: str) -> SignedIn:
        """A new session for an old one. The refresh token works once."""
        body = {"refresh_token": refresh_token}
        return cast(SignedIn, self._send("POST", "auth", "refresh", body=body, idempotency_key=True))

    def sign_out(self, access_token: str, scope: str = "this") -> None:
        """`scope`: "this" session, all "others", or "all"."""
        self._send("POST", "auth", "signout", body={"scope": scope}, token=access_token)

    def user(self, access_token: str) -> User:
        return cast(User, self._send("GET", "auth", "user", token=access_token)["user"])

    def update_user(self, access_token: str, **changes: Any) -> User:
        """Changes: email, data, or password with current_password."""
        return cast(User, self._send("PATCH", "auth", "user", body=changes, token=access_token)["user"])

    def delete_user(self, access_token: str) -> User:
        return cast(User, self._send("DELETE", "auth", "user", token=access_token)["user"])

    def request_recovery(self, email: str, *, send: Optional[bool] = None) -> Dict[str, Any]:
        """A code for a new password: sent to the user, or, with a key that may manage the project, returned."""
        body = {"email": email, **({} if send is None else {"send": send})}
        return cast("Dict[str, Any]", self._send("POST", "auth", "recover", body=body))

    def recover(self, code: str, password: str) -> SignedIn:
        return cast(SignedIn, self._send("POST", "auth", "recover", body={"code": code, "password": password}))

    def request_verification(self, email: str, *, send: Optional[bool] = None) -> Dict[str, Any]:
        body = {"email": email, **({} if send is None else {"send": send})}
        return cast("Dict[str, Any]", self._send("POST", "auth", "verify", body=body))

    def verify(self, code: str) -> User:
        return cast(User, self._send("POST", "auth", "verify", body={"code": code})["user"])

    def usage(self) -> Dict[str, Any]:
        return cast("Dict[str, Any]", self._send("GET", "usage")["usage"])
