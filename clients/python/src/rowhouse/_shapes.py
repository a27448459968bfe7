"""The responses of the service, as the package returns them."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict

Row = Dict[str, Any]


class Result(TypedDict):
    """The result of a statement."""

    columns: List[str]
    types: List[str]
    rows: List[Row]
    row_count: int
    duration_ms: Any
    command: str
    affected: int
    truncated: bool


class Page(TypedDict, total=False):
    """A page of a table. `count` is there if it was asked for."""

    columns: List[str]
    types: List[str]
    rows: List[Row]
    row_count: int
    page: Optional[int]
    limit: int
    has_more: bool
    next_cursor: Optional[str]
    count: Any


class User(TypedDict):
    """An end user of a project."""

    id: str
    email: str
    role: str
    data: Dict[str, Any]
    created_at: str
    last_sign_in_at: Optional[str]
    email_verified_at: Optional[str]
    banned_at: Optional[str]


class Session(TypedDict):
    """What a sign-in gives. `access_token` is a JWT, valid for 24 hours."""

    access_token: str
    token_type: str
    expires_in: int
    expires_at: str
    refresh_token: str


class SignedIn(TypedDict):
    user: User
    session: Session


class Project(TypedDict, total=False):
    id: str
    slug: str
    name: str
    limit_mb: int
    size_mb: Any
    status: str
    parent: str
    created_at: str
    expires_at: str
    deleted_at: str
    dropped_after: str
