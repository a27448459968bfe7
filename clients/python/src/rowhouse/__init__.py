"""Rowhouse for Python: SQL, tables and users of a project. `Client` blocks, `AsyncClient` is for asyncio."""

from ._account import Account, AsyncAccount
from ._async_client import AsyncClient, AsyncTable
from ._client import Client, Table
from ._errors import InvalidToken, RowhouseError, SqlProblem
from ._shapes import Page, Project, Result, Row, Session, SignedIn, User
from ._tokens import verify_token
from ._users import AsyncUsers, Users

__all__ = [
    "Account",
    "AsyncAccount",
    "AsyncClient",
    "AsyncTable",
    "AsyncUsers",
    "Client",
    "InvalidToken",
    "Page",
    "Project",
    "Result",
    "Row",
    "RowhouseError",
    "Session",
    "SignedIn",
    "SqlProblem",
    "Table",
    "User",
    "Users",
    "verify_token",
]
