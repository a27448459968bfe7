"""Projects and their keys, with an account key."""

from __future__ import annotations

from types import TracebackType
from typing import Any, AsyncIterator, Dict, Iterator, Optional, cast

import httpx

from ._http import AsyncSender, Call, Sender, Settings
from ._shapes import Project


def _create(name: str, limit_mb: int | None, slug: str | None, key: str | bool | None) -> Call:
    given = {"name": name, "limit_mb": limit_mb, "slug": slug}
    body = {field: value for field, value in given.items() if value is not None}
    return Call("POST", ("projects",), body=body, idempotency_key=key)


class Account:
    """Creates, lists, changes and deletes projects, and issues their keys."""

    def __init__(
        self, url: str, api_key: str, *, timeout: float = 60, retries: int = 2, http: Optional[httpx.Client] = None
    ) -> None:
        self._sender = Sender(Settings.of(url, api_key, timeout, retries), http)

    def __enter__(self) -> Account:
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

    def _send(self, method: str, *path: str, body: Any = None) -> Any:
        return self._sender.send(Call(method, ("projects", *path), body=body))

    def projects(self) -> Iterator[Project]:
        """All projects, newest first."""
        page = 1
        while True:
            answer = self._sender.send(Call("GET", ("projects",), query={"limit": 1000, "page": page}))
            yield from answer["projects"]
            if not answer["has_more"]:
                return
            page += 1

    def create(
        self,
        name: str,
        *,
        limit_mb: Optional[int] = None,
        slug: Optional[str] = None,
        idempotency_key: str | bool | None = None,
    ) -> Dict[str, Any]:
        """`{"project": …, "api_key": …}`. The key is returned only once."""
        return cast("Dict[str, Any]", self._sender.send(_create(name, limit_mb, slug, idempotency_key)))

    def get(self, slug: str) -> Project:
        return cast(Project, self._send("GET", slug)["project"])

    def update(self, slug: str, **changes: Any) -> Project:
        """Changes: name, limit_mb, expires_at."""
        return cast(Project, self._send("PATCH", slug, body=changes)["project"])

    def delete(self, slug: str) -> Project:
        return cast(Project, self._send("DELETE", slug)["project"])

    def restore(self, slug: str) -> Project:
        return cast(Project, self._send("POST", slug, "restore")["project"])

    def issue_key(self, slug: str, name: str, **fields: Any) -> Dict[str, Any]:
        """Fields: kind ("publishable"), scopes, tables, expires_at."""
        return cast("Dict[str, Any]", self._send("POST", slug, "keys", body={"name": name, **fields}))

    def revoke_key(self, slug: str, id: str) -> None:
        self._send("DELETE", slug, "keys", id)


class AsyncAccount:
    """The same for asyncio."""

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        timeout: float = 60,
        retries: int = 2,
        http: Optional[httpx.AsyncClient] = None,
    ) -> None:
        self._sender = AsyncSender(Settings.of(url, api_key, timeout, retries), http)

    async def __aenter__(self) -> AsyncAccount:
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

    async def _send(self, method: str, *path: str, body: Any = None) -> Any:
        return await self._sender.send(Call(method, ("projects", *path), body=body))

    async def projects(self) -> AsyncIterator[Project]:
        page = 1
        while True:
            answer = await self._sender.send(Call("GET", ("projects",), query={"limit": 1000, "page": page}))
            for project in answer["projects"]:
                yield project
            if not answer["has_more"]:
                return
            page += 1

    async def create(
        self,
        name: str,
        *,
        limit_mb: Optional[int] = None,
        slug: Optional[str] = None,
        idempotency_key: str | bool | None = None,
    ) -> Dict[str, Any]:
        return cast("Dict[str, Any]", await self._sender.send(_create(name, limit_mb, slug, idempotency_key)))

    async def get(self, slug: str) -> Project:
        return cast(Project, (await self._send("GET", slug))["project"])

    async def update(self, slug: str, **changes: Any) -> Project:
        return cast(Project, (await self._send("PATCH", slug, body=changes))["project"])

    async def delete(self, slug: str) -> Project:
        return cast(Project, (await self._send("DELETE", slug))["project"])

    async def restore(self, slug: str) -> Project:
        return cast(Project, (await self._send("POST", slug, "restore"))["project"])

    async def issue_key(self, slug: str, name: str, **fields: Any) -> Dict[str, Any]:
        return cast("Dict[str, Any]", await self._send("POST", slug, "keys", body={"name": name, **fields}))

    async def revoke_key(self, slug: str, id: str) -> None:
        await self._send("DELETE", slug, "keys", id)
