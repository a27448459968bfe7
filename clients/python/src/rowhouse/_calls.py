"""The requests of a project's client, and how rows of a stream are found: shared by both clients, without I/O."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Mapping, Sequence, TypeVar, Union

from ._http import Call, Query, from_json

Formats = {"csv": "text/csv", "jsonl": "application/x-ndjson"}
Statement = Union[str, Mapping[str, Any]]
Q = TypeVar("Q", bound="TableQuery")

DEFAULT_URL = "http://127.0.0.1:8765"
#: Rows in each request of an iteration.
PIECE = 1000


def inside(root: tuple[str, ...], call: Call) -> Call:
    return replace(call, path=(*root, *call.path))


def statement(sql: str, params: Sequence[Any], **more: Any) -> dict[str, Any]:
    given = {name: value for name, value in more.items() if value is not None}
    return {"query": sql, **({"params": list(params)} if params else {}), **given}


def batch(statements: Sequence[Statement]) -> list[dict[str, Any]]:
    return [{"query": one} if isinstance(one, str) else dict(one) for one in statements]


class Lines:
    """Lines of a stream of bytes, each parsed alone."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[Any]:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        return [from_json(line) for line in lines if line]

    def end(self) -> list[Any]:
        return [from_json(self._rest)] if self._rest.strip() else []


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _path(column: str) -> str:
    """`data->items->0`: a number is an array index."""
    name, *keys = column.replace("->>", "\0>>").replace("->", "\0>").split("\0")
    quoted = _quote(name)
    for key in keys:
        arrow = ">>" if key.startswith(">>") else ">"
        word = key[len(arrow) :]
        quoted += f"-{arrow}{word if word.lstrip('-').isdigit() else _quote(word)}"
    return quoted


def _value(value: Any) -> str:
    if value is None:
        raise ValueError("A filter cannot be None: use is_(column, None).")
    if isinstance(value, bool):
        return _quote("true" if value else "false")
    if isinstance(value, (bytes, bytearray)):
        return _quote(f"\\x{value.hex()}")
    isoformat = getattr(value, "isoformat", None)
    return _quote(isoformat() if isoformat else str(value))


@dataclass(frozen=True)
class TableQuery:
    """A table with filters and an order. Every method returns a new one, so that a part can be kept and extended."""

    name: str
    token: str | None = None
    conditions: tuple[str, ...] = ()
    orders: tuple[str, ...] = ()
    params: tuple[tuple[str, str | int], ...] = ()

    def _with(self: Q, **changes: Any) -> Q:
        return replace(self, **changes)

    def param(self: Q, name: str, value: str | int) -> Q:
        """Any parameter of the service."""
        return self._with(params=(*(pair for pair in self.params if pair[0] != name), (name, value)))

    def filter(self: Q, column: str, operator: str, value: Any) -> Q:
        """Any operator of the service: `filter("tags", "cs", "{a,b}")`, `filter("id", "not.in", [1, 2])`."""
        if operator.split(".")[-1] == "in":
            operand = f"({','.join(_value(one) for one in value)})"
        elif operator.split(".")[-1] == "is":
            operand = {None: "null", True: "true", False: "false"}.get(value, str(value))
        else:
            operand = _value(value)
        return self._with(conditions=(*self.conditions, f"{_path(column)}.{operator}.{operand}"))

    def eq(self: Q, column: str, value: Any) -> Q:
        return self.filter(column, "eq", value)

    def neq(self: Q, column: str, value: Any) -> Q:
        return self.filter(column, "neq", value)

    def gt(self: Q, column: str, value: Any) -> Q:
        return self.filter(column, "gt", value)

    def gte(self: Q, column: str, value: Any) -> Q:
        return self.filter(column, "gte", value)

    def lt(self: Q, column: str, value: Any) -> Q:
        return self.filter(column, "lt", value)

    def lte(self: Q, column: str, value: Any) -> Q:
        return self.filter(column, "lte", value)

    def like(self: Q, column: str, pattern: str) -> Q:
        """`*` and `%` match any text."""
        return self.filter(column, "like", pattern)

    def ilike(self: Q, column: str, pattern: str) -> Q:
        return self.filter(column, "ilike", pattern)

    def in_(self: Q, column: str, values: Sequence[Any]) -> Q:
        return self.filter(column, "in", values)

    def is_(self: Q, column: str, value: bool | None) -> Q:
        return self.filter(column, "is", value)

    def any_of(self: Q, *branches: Q) -> Q:
        """At least one: `t.any_of(t.lt("price", 3), t.gt("price", 9).eq("name", "Oolong"))`."""
        parts = [f"and({','.join(branch.conditions)})" for branch in branches]
        return self._with(conditions=(*self.conditions, f"or({','.join(parts)})"))

    def select(self: Q, *columns: str) -> Q:
        """Columns, or anything that `select` of the service takes: `select("title", "authors(name)")`."""
        return self.param("select", ",".join(columns))

    def order(self: Q, column: str, direction: str = "asc", nulls: str | None = None) -> Q:
        text = f"{_path(column)}.{direction}{f'.{nulls}' if nulls else ''}"
        return self._with(orders=(*self.orders, text))

    def limit(self: Q, rows: int) -> Q:
        return self.param("limit", rows)

    def count(self: Q, kind: str = "exact") -> Q:
        return self.param("count", kind)

    def _call(self, method: str, body: Any = None, more: Query | None = None, **rest: Any) -> Call:
        query: dict[str, str | int | None] = dict(self.params)
        if self.orders:
            query["order"] = ",".join(self.orders)
        if self.conditions:
            query["and"] = f"({','.join(self.conditions)})"
        query.update(more or {})
        return Call(method, ("tables", self.name), query=query, body=body, token=self.token, **rest)

    def _upsert(self, body: Any, on_conflict: Sequence[str] | None, ignore: bool, key: Any) -> Call:
        query: dict[str, str | int | None] = {"resolution": "ignore" if ignore else "merge"}
        if on_conflict:
            query["on_conflict"] = ",".join(on_conflict)
        return self._call("POST", body, query, idempotency_key=key)

    def _import(self, format: str, content: Any, key: Any) -> Call:
        return self._call("POST", None, None, content=content, content_type=Formats[format], idempotency_key=key)
