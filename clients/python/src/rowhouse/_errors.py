"""The errors of the package."""

from __future__ import annotations

from typing import Any, TypedDict


class SqlProblem(TypedDict, total=False):
    """What PostgreSQL says about a statement."""

    state: str
    position: int | None
    detail: str | None
    hint: str | None
    schema: str | None
    table: str | None
    column: str | None
    constraint: str | None


class RowhouseError(Exception):
    """The service refused a request, or did not answer (`code` is "network_error" or "timeout", `status` 0).

    Programs decide by `code`. `message` and `hint` are for people. `request_id` finds the request in the service's log.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int = 0,
        hint: str | None = None,
        details: Any = None,
        sql: SqlProblem | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{message} {hint}" if hint else message)
        self.code = code
        self.message = message
        self.status = status
        self.hint = hint
        self.details = details
        self.sql = sql
        self.request_id = request_id
        self.retry_after = retry_after


class InvalidToken(Exception):
    """A token that is not to be trusted."""
