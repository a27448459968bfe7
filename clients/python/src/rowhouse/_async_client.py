"""The client of one project for asyncio. It says the same as _client.py, with await."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, AsyncIterator, Dict, List, Mapping, Optional, Sequence, cast

import httpx

from ._calls import DEFAULT_URL, PIECE, Formats, Lines, Statement, TableQuery, batch, inside, statement
from ._http import AsyncSender, Call, Settings
from ._shapes import Page, Result, Row, SignedIn, User
from ._users import AsyncUsers


@dataclass(frozen=True)
class AsyncTable(TableQuery):
    """The same for asyncio: `async for row in table`."""

    sender: AsyncSender = field(default=cast(AsyncSender, None), repr=False)
    root: tuple[str, ...] = ()

    async def _send(self, call: Call) -> Any:
        return await self.sender.send(inside(self.root, call))

    async def page(self, *, page: Optional[int] = None, cursor: Optional[str] = None) -> Page:
        """One page: 50 rows, unless there is a `limit`."""
        return cast(Page, await self._send(self._call("GET", None, {"page": page, "cursor": cursor})))

    async def first(self) -> Optional[Row]:
        rows = (await self._send(self._call("GET", None, {"limit": 1})))["rows"]
        return rows[0] if rows else None

    async def pages(self) -> AsyncIterator[List[Row]]:
        """The rows of each page, by cursor: each costs the same, however deep. Views have none, and go by number."""
        size = dict(self.params).get("limit", PIECE)
        place: Dict[str, Any] = {}
        number = 1
        while True:
            answer = await self._send(self._call("GET", None, {"limit": size, **place}))
            yield answer["rows"]
            if not answer["has_more"]:
                return
            number += 1
            cursor = answer["next_cursor"]
            place = {"page": number} if cursor is None else {"cursor": cursor}

    async def __aiter__(self) -> AsyncIterator[Row]:
        async for rows in self.pages():
            for row in rows:
                yield row

    async def insert(self, row: Mapping[str, Any], *, idempotency_key: str | bool | None = None) -> Row:
        """The row as it was stored, defaults included."""
        return cast(Row, (await self._send(self._call("POST", row, idempotency_key=idempotency_key)))["row"])

    async def insert_many(
        self, rows: Sequence[Mapping[str, Any]], *, idempotency_key: str | bool | None = None
    ) -> List[Row]:
        """All of them or none."""
        answer = await self._send(self._call("POST", list(rows), idempotency_key=idempotency_key))
        return cast("List[Row]", answer["rows"])

    async def upsert(
        self,
        rows: Sequence[Mapping[str, Any]],
        *,
        on_conflict: Optional[Sequence[str]] = None,
        ignore: bool = False,
        idempotency_key: str | bool | None = None,
    ) -> List[Row]:
        """Existing rows with the same key are updated, or, with `ignore`, kept."""
        answer = await self._send(self._upsert(list(rows), on_conflict, ignore, idempotency_key))
        return cast("List[Row]", answer["rows"])

    async def update(self, changes: Mapping[str, Any], *, max_affected: Optional[int] = None) -> List[Row]:
        """Changes the rows that match the filters. Without a filter, the service refuses it."""
        answer = await self._send(self._call("PATCH", changes, {"max_affected": max_affected}))
        return cast("List[Row]", answer["rows"])

    async def delete(self, *, max_affected: Optional[int] = None) -> List[Row]:
        answer = await self._send(self._call("DELETE", None, {"max_affected": max_affected}))
        return cast("List[Row]", answer["rows"])

    async def import_rows(self, format: str, content: Any, *, idempotency_key: str | bool | None = None) -> int:
        """Inserts rows of "csv" or "jsonl" (JSON lines): text, bytes, or an iterable of bytes. All or none."""
        return cast(int, (await self._send(self._import(format, content, idempotency_key)))["row_count"])

    async def export_rows(self, format: str) -> AsyncIterator[bytes]:
        """All rows that match, as "csv" or "jsonl", piece by piece."""
        call = self._call("GET", accept=Formats[format])
        async for piece in self.sender.stream(inside(self.root, call)):
            yield piece


class AsyncClient:
    """One project, by its address and key. `timeout`: seconds until the service says something.

    >>> async with AsyncClient("http://127.0.0.1:8765", "rh_proj_…", "my-shop") as db:
    ...     rows = (await db.query("select name from teas where price < $1", [10]))["rows"]
    """

    def __init__(
        self,
        url: str,
        api_key: str,
        project: str,
        *,
        timeout: float = 60,
        retries: int = 2,
        http: Optional[httpx.AsyncClient] = None,
        user_token: Optional[str] = None,
    ) -> None:
        if not project:
            raise ValueError("project is missing. Is the environment variable set that it comes from (ROWHOUSE_PROJECT)?")
        self._settings = Settings.of(url or DEFAULT_URL, api_key, timeout, retries)
        self._sender = AsyncSender(self._settings, http)
        self._path = ("projects", project)
        self._token = user_token
        self.users = AsyncUsers(self._sender, self._path)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._sender.close()

    def as_user(self, access_token: str) -> AsyncClient:
        """The same project, acting as a user: row security decides. It shares the connections of this client."""
        copy = object.__new__(AsyncClient)
        copy.__dict__.update(self.__dict__, _token=access_token)
        return copy

    async def _send(self, method: str, *path: str, body: Any = None, token: Optional[str] = None, **more: Any) -> Any:
        return await self._sender.send(Call(method, (*self._path, *path), body=body, token=token or self._token, **more))

    async def query(
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
        answer = await self._send("POST", "query", body=body, idempotency_key=idempotency_key, timeout=timeout)
        return cast(Result, answer)

    async def stream(self, sql: str, params: Sequence[Any] = ()) -> AsyncIterator[Row]:
        """The rows one by one as they arrive, in constant memory. A result that breaks off raises."""
        lines = Lines()
        async for piece in self.export_rows("jsonl", sql, params):
            for row in lines.feed(piece):
                yield row
        for row in lines.end():
            yield row

    async def export_rows(self, format: str, sql: str, params: Sequence[Any] = ()) -> AsyncIterator[bytes]:
        """The rows of a statement as "csv" or "jsonl", piece by piece."""
        body = statement(sql, params)
        call = Call("POST", (*self._path, "query"), body=body, token=self._token, accept=Formats[format])
        async for piece in self._sender.stream(call):
            yield piece

    async def batch(
        self, statements: Sequence[Statement], *, idempotency_key: str | bool | None = None
    ) -> List[Result]:
        """Several statements in one transaction: texts, or {"query": …, "params": […], "expect_affected": 1}."""
        body = {"statements": batch(statements)}
        answer = await self._send("POST", "batch", body=body, idempotency_key=idempotency_key)
        return cast("List[Result]", answer["results"])

    def table(self, name: str) -> AsyncTable:
        """A table or view: `db.table("teas").gte("price", 4).order("price")`."""
        return AsyncTable(name, token=self._token, sender=self._sender, root=self._path)

    async def sign_up(self, email: str, password: str, data: Optional[Mapping[str, Any]] = None) -> SignedIn:
        body = {"email": email, "password": password, **({} if data is None else {"data": data})}
        return cast(SignedIn, await self._send("POST", "auth", "signup", body=body))

    async def sign_in(self, email: str, password: str) -> SignedIn:
        body = {"email": email, "password": password}
        return cast(SignedIn, await self._send("POST", "auth", "signin", body=body))

    async def refresh(self, refresh_token: str) -> SignedIn:
        """A new session for an old one. The refresh token works once."""
        body = {"refresh_token": refresh_token}
        return cast(SignedIn, await self._send("POST", "auth", "refresh", body=body, idempotency_key=True))

    async def sign_out(self, access_token: str, scope: str = "this") -> None:
        """`scope`: "this" session, all "others", or "all"."""
        await self._send("POST", "auth", "signout", body={"scope": scope}, token=access_token)

    async def user(self, access_token: str) -> User:
        return cast(User, (await self._send("GET", "auth", "user", token=access_token))["user"])

    async def update_user(self, access_token: str, **changes: Any) -> User:
        """Changes: email, data, or password with current_password."""
        return cast(User, (await self._send("PATCH", "auth", "user", body=changes, token=access_token))["user"])

    async def delete_user(self, access_token: str) -> User:
        return cast(User, (await self._send("DELETE", "auth", "user", token=access_token))["user"])

    async def request_recovery(self, email: str, *, send: Optional[bool] = None) -> Dict[str, Any]:
        """A code for a new password: sent to the user, or, with a key that may manage the project, returned."""
        body = {"email": email, **({} if send is None else {"send": send})}
        return cast("Dict[str, Any]", await self._send("POST", "auth", "recover", body=body))

    async def recover(self, code: str, password: str) -> SignedIn:
        return cast(SignedIn, await self._send("POST", "auth", "recover", body={"code": code, "password": password}))

    async def request_verification(self, email: str, *, send: Optional[bool] = None) -> Dict[str, Any]:
        body = {"email": email, **({} if send is None else {"send": send})}
        return cast("Dict[str, Any]", await self._send("POST", "auth", "verify", body=body))

    async def verify(self, code: str) -> User:
        return cast(User, (await self._send("POST", "auth", "verify", body={"code": code}))["user"])

    async def usage(self) -> Dict[str, Any]:
        return cast("Dict[str, Any]", (await self._send("GET", "usage"))["usage"])
