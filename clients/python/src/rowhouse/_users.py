"""Administration of a project's users, with the project key or a key with the scope `manage`."""

from __future__ import annotations

from typing import Any, AsyncIterator, Dict, Iterator, List, Optional, cast

from ._http import AsyncSender, Call, Sender
from ._shapes import User

_USERS = ("auth", "users")


def _page(path: tuple[str, ...], page: int, search: str | None) -> Call:
    return Call("GET", (*path, *_USERS), query={"limit": 1000, "page": page, "search": search})


class Users:
    """`client.users`."""

    def __init__(self, sender: Sender, path: tuple[str, ...]) -> None:
        self._sender, self._path = sender, path

    def _user(self, method: str, *segments: str, body: Any = None) -> User:
        answer = self._sender.send(Call(method, (*self._path, *_USERS, *segments), body=body))
        return cast(User, answer["user"])

    def list(self, search: str | None = None) -> Iterator[User]:
        """All users, newest first. `search`: a part of an email address, or an id."""
        page = 1
        while True:
            answer = self._sender.send(_page(self._path, page, search))
            yield from answer["users"]
            if not answer["has_more"]:
                return
            page += 1

    def find(self, email: str) -> Optional[User]:
        """By email address, without regard to case."""
        wanted = email.strip().lower()
        return next((user for user in self.list(wanted) if user["email"].lower() == wanted), None)

    def get(self, id: str) -> User:
        return self._user("GET", id)

    def create(self, email: str, **fields: Any) -> User:
        """Fields: password, role, data, email_verified."""
        return self._user("POST", body={"email": email, **fields})

    def update(self, id: str, **changes: Any) -> User:
        """Changes: email, password, role, data, email_verified, banned."""
        return self._user("PATCH", id, body=changes)

    def delete(self, id: str) -> User:
        return self._user("DELETE", id)

    def sessions(self, id: str) -> List[Dict[str, Any]]:
        answer = self._sender.send(Call("GET", (*self._path, *_USERS, id, "sessions")))
        return cast("List[Dict[str, Any]]", answer["sessions"])

    def sign_out(self, id: str) -> None:
        """Ends all sessions of the user."""
        self._sender.send(Call("DELETE", (*self._path, *_USERS, id, "sessions")))

    def act_as(self, id: str, expires_in: int = 900) -> str:
        """A token with which this key acts as the user ("anon": as nobody): `client.as_user(token)`. It is recorded."""
        path = (*self._path, *_USERS, id, "act-as")
        return cast(str, self._sender.send(Call("POST", path, body={"expires_in": expires_in}))["token"])


class AsyncUsers:
    """`client.users` for asyncio."""

    def __init__(self, sender: AsyncSender, path: tuple[str, ...]) -> None:
        self._sender, self._path = sender, path

    async def _user(self, method: str, *segments: str, body: Any = None) -> User:
        answer = await self._sender.send(Call(method, (*self._path, *_USERS, *segments), body=body))
        return cast(User, answer["user"])

    async def list(self, search: str | None = None) -> AsyncIterator[User]:
        page = 1
        while True:
            answer = await self._sender.send(_page(self._path, page, search))
            for user in answer["users"]:
                yield user
            if not answer["has_more"]:
                return
            page += 1

    async def find(self, email: str) -> Optional[User]:
        wanted = email.strip().lower()
        async for user in self.list(wanted):
            if user["email"].lower() == wanted:
                return user
        return None

    async def get(self, id: str) -> User:
        return await self._user("GET", id)

    async def create(self, email: str, **fields: Any) -> User:
        return await self._user("POST", body={"email": email, **fields})

    async def update(self, id: str, **changes: Any) -> User:
        return await self._user("PATCH", id, body=changes)

    async def delete(self, id: str) -> User:
        return await self._user("DELETE", id)

    async def sessions(self, id: str) -> List[Dict[str, Any]]:
        answer = await self._sender.send(Call("GET", (*self._path, *_USERS, id, "sessions")))
        return cast("List[Dict[str, Any]]", answer["sessions"])

    async def sign_out(self, id: str) -> None:
        await self._sender.send(Call("DELETE", (*self._path, *_USERS, id, "sessions")))

    async def act_as(self, id: str, expires_in: int = 900) -> str:
        path = (*self._path, *_USERS, id, "act-as")
        return cast(str, (await self._sender.send(Call("POST", path, body={"expires_in": expires_in})))["token"])
