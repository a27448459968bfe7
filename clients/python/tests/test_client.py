"""Against a running service: ROWHOUSE_URL, ROWHOUSE_ACCOUNT_KEY. Run by the tests of the repository, or by hand."""

import asyncio
import os
import threading
import unittest
import uuid
from datetime import datetime, timezone
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, List, Optional

from rowhouse import Account, AsyncAccount, AsyncClient, Client, InvalidToken, RowhouseError, verify_token

URL = os.environ.get("ROWHOUSE_URL", "http://127.0.0.1:8765")
KEY = os.environ["ROWHOUSE_ACCOUNT_KEY"]
account = Account(URL, KEY)


class Case(unittest.TestCase):
    slug: str
    key: str

    @classmethod
    def setUpClass(cls) -> None:
        made = account.create(f"Python {cls.__name__}", limit_mb=64, idempotency_key=True)
        cls.slug, cls.key = made["project"]["slug"], made["api_key"]

    def refusal(self, work: Any) -> RowhouseError:
        with self.assertRaises(RowhouseError) as caught:
            work()
        return caught.exception


class Sync(Case):
    def setUp(self) -> None:
        self.db = Client(URL, self.key, self.slug)
        self.addCleanup(self.db.close)

    def test_values_keep_their_digits_and_types(self) -> None:
        moment = datetime(2026, 11, 14, 9, 30, tzinfo=timezone.utc)
        id = uuid.uuid4()
        result = self.db.query(
            "select $1::int8 as big, $2::numeric as exact, $3::timestamptz as at, $4::uuid as id, $5::bytea as bytes",
            [2**53 + 1, Decimal("0.10"), moment, id, b"\x00\xff"],
        )
        self.assertEqual(
            result["rows"],
            [
                {
                    "big": 2**53 + 1,
                    "exact": Decimal("0.10"),
                    "at": "2026-11-14T09:30:00Z",
                    "id": str(id),
                    "bytes": "\\x00ff",
                }
            ],
        )
        with self.assertRaises(TypeError):
            self.db.query("select $1", [object()])

    def test_statements_stream_batch_and_fail(self) -> None:
        self.assertEqual(sum(row["n"] for row in self.db.stream("select generate_series(1, 20000) as n")), 200010000)
        self.assertEqual(b"".join(self.db.export_rows("csv", "select $1::int as n", [7])), b"n\n7\n")
        first, second = self.db.batch(["select 1 as one", {"query": "select $1::int as two", "params": [2]}])
        self.assertEqual((first["rows"], second["rows"]), ([{"one": 1}], [{"two": 2}]))
        error = self.refusal(lambda: self.db.query("select nope"))
        self.assertEqual((error.code, error.status, (error.sql or {}).get("state")), ("sql_error", 400, "42703"))
        self.assertIsNotNone(error.request_id)
        self.assertEqual(self.refusal(lambda: list(self.db.stream("select nope"))).code, "sql_error")
        self.assertEqual(self.refusal(lambda: self.db.query("create table x ()", read_only=True)).code, "sql_error")

    def test_tables(self) -> None:
        self.db.query("create table teas (id int generated always as identity primary key, name text unique, price numeric, data jsonb)")
        teas = self.db.table("teas")
        made = teas.insert({"name": 'The "Queen\'s", ', "price": Decimal("4.50"), "data": {"a": {"b": [1, 2]}}})
        self.assertEqual((made["id"], made["price"]), (1, Decimal("4.50")))
        self.assertEqual(len(teas.insert_many([{"name": "Mate", "price": 3}, {"name": "Oolong", "price": 12}])), 2)
        self.assertEqual([row["name"] for row in teas.select("name").gte("price", 4).order("price", "desc")][0], "Oolong")
        self.assertEqual(teas.eq("name", 'The "Queen\'s", ').first()["id"], 1)  # type: ignore[index]
        self.assertEqual(teas.eq("data->a->b->>0", 1).first()["id"], 1)  # type: ignore[index]
        self.assertEqual(len(list(teas.in_("id", [1, 2]))), 2)
        self.assertEqual(len(list(teas.is_("data", None))), 2)
        either = teas.any_of(teas.lt("price", 4), teas.gt("price", 10))
        self.assertEqual(either.count().page()["count"]["rows"], 2)
        merged = teas.upsert([{"name": "Mate", "price": 5}], on_conflict=["name"])
        self.assertEqual(merged[0]["price"], 5)
        self.assertEqual(teas.upsert([{"name": "Mate", "price": 6}], on_conflict=["name"], ignore=True), [])
        self.assertEqual(teas.eq("name", "Mate").update({"price": 7})[0]["price"], 7)
        self.assertEqual(self.refusal(lambda: teas.is_("id", None).filter("id", "not.is", None).delete(max_affected=-1)).code, "invalid_request")
        self.assertEqual(self.refusal(lambda: teas.filter("id", "not.is", None).delete(max_affected=1)).code, "conflict")
        self.assertEqual(len(teas.eq("name", "Mate").delete()), 1)
        lines = (f"tea {number},1\n".encode() for number in range(2500))
        self.assertEqual(teas.import_rows("csv", (piece for piece in [b"name,price\n", *lines])), 2500)
        self.assertEqual([len(rows) for rows in teas.like("name", "tea *").limit(1000).pages()], [1000, 1000, 500])
        self.assertEqual(sum(1 for _ in teas), 2502)
        self.assertEqual(b"".join(teas.select("name").eq("id", 1).export_rows("jsonl")), b'{"name":"The \\"Queen\'s\\", "}\n')
        self.assertEqual(self.refusal(lambda: self.db.table("tea").page()).code, "table_not_found")
        with self.assertRaises(ValueError):
            teas.eq("name", None)
        with self.assertRaises(ValueError):
            self.db.table("..").page()

    def test_users(self) -> None:
        signed = self.db.sign_up("ada@example.com", "correct horse", {"name": "Ada"})
        token = signed["session"]["access_token"]
        self.assertEqual(verify_token(token, self.key, self.slug)["sub"], signed["user"]["id"])
        for bad in (token[:-2], f"{token}.x", token.replace(".", "", 1)):
            with self.assertRaises(InvalidToken):
                verify_token(bad, self.key, self.slug)
        with self.assertRaises(InvalidToken):
            verify_token(token, self.key, "other")
        self.assertEqual(self.db.user(token)["email"], "ada@example.com")
        self.assertEqual(self.db.update_user(token, data={"name": "Ada L."})["data"], {"name": "Ada L."})
        self.db.query("create table notes (owner uuid default auth.uid(), text text)")
        self.db.query("alter table notes enable row level security")
        self.db.query("create policy own on notes to authenticated using (owner = auth.uid())")
        as_ada = self.db.as_user(token)
        self.assertEqual(as_ada.table("notes").insert({"text": "hi"})["owner"], signed["user"]["id"])
        other = self.db.sign_up("ben@example.com", "correct horse")["session"]
        self.assertEqual(list(self.db.as_user(other["access_token"]).table("notes")), [])
        renewed = self.db.refresh(other["refresh_token"])["session"]
        code = self.db.request_recovery("ben@example.com")["code"]
        self.assertEqual(self.db.recover(code, "another horse")["user"]["email"], "ben@example.com")
        self.assertEqual(self.refusal(lambda: self.db.user(renewed["access_token"])).status, 401)
        verification = self.db.request_verification("ben@example.com")["code"]
        self.assertIsNotNone(self.db.verify(verification)["email_verified_at"])
        self.assertEqual(self.refusal(lambda: self.db.sign_in("ben@example.com", "wrong horse")).code, "invalid_credentials")
        acting = self.db.users.act_as(signed["user"]["id"], 60)
        self.assertEqual(len(self.db.as_user(acting).query("select * from notes")["rows"]), 1)
        ben = self.db.users.find("BEN@example.com")
        assert ben
        self.assertIsNotNone(self.db.users.update(ben["id"], banned=True)["banned_at"])
        self.assertEqual(len(self.db.users.sessions(signed["user"]["id"])) > 0, True)
        self.db.sign_out(token, "all")
        self.assertEqual(self.refusal(lambda: self.db.user(token)).code, "invalid_token")
        self.db.users.delete(ben["id"])
        self.assertEqual([user["email"] for user in self.db.users.list()], ["ada@example.com"])

    def test_account(self) -> None:
        self.assertIn(self.slug, [project["slug"] for project in account.projects()])
        self.assertEqual(account.update(self.slug, limit_mb=65)["limit_mb"], 65)
        issued = account.issue_key(self.slug, "reports", scopes=["query:read"])
        with Client(URL, issued["api_key"], self.slug) as reports:
            self.assertEqual(reports.query("select 1 as one")["rows"], [{"one": 1}])
            self.assertEqual(self.refusal(lambda: reports.table("x").insert({})).code, "forbidden")
        with Account(URL, KEY) as other:
            other.revoke_key(self.slug, issued["key"]["id"])
        with self.assertRaises(RuntimeError):
            other.get(self.slug)
        self.assertEqual(self.db.usage()["status"], "ready")

    def test_what_is_wrong_is_said(self) -> None:
        with self.assertRaisesRegex(ValueError, "ROWHOUSE_API_KEY"):
            Client(URL, None, "x")  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, "begins with http"):
            Client("ftp://x", "rh_proj_x", "x")
        away = Client("http://127.0.0.1:1", self.key, self.slug, retries=0)
        error = self.refusal(lambda: away.query("select 1"))
        self.assertEqual((error.code, error.status), ("network_error", 0))
        self.assertIn("no answer from the service: ", error.message)
        self.assertNotIn(self.key, str(error))


class Retries(Case):
    """A server that refuses first, and one that goes away in the middle."""

    def serve(self, answers: List[Optional[int]]) -> str:
        self.seen: List[Optional[str]] = []
        case = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                case.seen.append(self.headers.get("idempotency-key"))
                self.rfile.read(int(self.headers["content-length"]))
                status = answers.pop(0)
                if status is None:
                    self.connection.close()
                    return
                ok = b'{"ok":true,"rows":[]}'
                body = ok if status == 200 else b'{"ok":false,"error":{"code":"unavailable","message":"x"}}'
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    def test_only_what_cannot_have_run_is_sent_again(self) -> None:
        db = Client(self.serve([503, 200]), self.key, "x")
        db.query("select 1")
        self.assertEqual(len(self.seen), 2)
        lost = Client(self.serve([None, 200]), self.key, "x")
        self.assertEqual(self.refusal(lambda: lost.query("select 1")).code, "network_error")
        self.assertEqual(len(self.seen), 1)
        safe = Client(self.serve([None, 200]), self.key, "x")
        safe.query("select 1", idempotency_key=True)
        self.assertEqual(len(set(self.seen)), 1)
        self.assertEqual(len(self.seen), 2)


class Async(Case):
    def test_the_same_with_await(self) -> None:
        async def run() -> None:
            async with AsyncClient(URL, self.key, self.slug) as db:
                await db.query("create table teas (id int primary key, name text)")
                teas = db.table("teas")
                self.assertEqual((await teas.insert({"id": 1, "name": "Assam"}))["name"], "Assam")
                await teas.import_rows("jsonl", b'{"id":2,"name":"Mate"}\n')
                self.assertEqual([row["id"] async for row in teas.order("id")], [1, 2])
                self.assertEqual([row["n"] async for row in db.stream("select generate_series(1, 3) as n")], [1, 2, 3])
                self.assertEqual(b"".join([piece async for piece in teas.eq("id", 1).export_rows("csv")]), b"id,name\n1,Assam\n")
                many = await asyncio.gather(*(db.query("select $1::int as n", [n]) for n in range(20)))
                self.assertEqual([one["rows"][0]["n"] for one in many], list(range(20)))
                signed = await db.sign_up("ada@example.com", "correct horse")
                self.assertEqual((await db.user(signed["session"]["access_token"]))["id"], signed["user"]["id"])
                self.assertEqual([user["email"] async for user in db.users.list()], ["ada@example.com"])
                self.assertEqual((await teas.eq("id", 1).update({"name": "x"}))[0]["name"], "x")
                self.assertEqual(len(await teas.eq("id", 1).delete()), 1)
                with self.assertRaises(RowhouseError):
                    await db.query("select nope")
                with self.assertRaises(RowhouseError):
                    async for _ in db.stream("select nope"):
                        pass
            async with AsyncAccount(URL, KEY) as other:
                self.assertIn(self.slug, [project["slug"] async for project in other.projects()])
            with self.assertRaises(RuntimeError):
                await other.get(self.slug)

        asyncio.run(run())


if __name__ == "__main__":
    unittest.main()
