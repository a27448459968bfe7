"""Users, rows and queries with Rowhouse. See README.md."""

import os
import secrets
import sys
from datetime import datetime, timezone
from decimal import Decimal

from rowhouse import Client, InvalidToken, RowhouseError, verify_token

TEAS = [
    {"name": "Genmaicha 玄米茶", "price": "12.00"},
    {"name": 'Earl Grey, "the Queen\'s"', "price": "9.99"},
    {"name": "Mate", "price": "3.80"},
    {"name": "Oolong", "price": "21.50"},
]


def main() -> None:
    url, key, project = settings("ROWHOUSE_URL", "ROWHOUSE_API_KEY", "ROWHOUSE_PROJECT")
    with Client(url, key, project) as db:
        run(db, key, project)


def run(db: Client, key: str, project: str) -> None:
    email, password = f"ada+python-{secrets.token_hex(6)}@example.com", secrets.token_urlsafe()
    user = db.sign_up(email, password, {"name": "Ada"})["user"]
    print("signed up:", user["email"])

    session = db.sign_in(email, password)["session"]
    claims = verify_token(session["access_token"], key, project)
    until = datetime.fromtimestamp(claims["exp"], timezone.utc)
    print(f"signed in: {claims['role']}, until {until:%Y-%m-%d %H:%M} UTC")

    db.query(
        """create table if not exists example_teas (
             id bigint generated always as identity primary key,
             user_id uuid not null references auth.users on delete cascade,
             name text not null,
             price numeric(10, 2) not null,
             barcode bigint)"""
    )
    # More than 2^53, where a double would lose the last digit.
    tea = {"user_id": claims["sub"], "name": "Assam", "price": Decimal("4.50"), "barcode": 2**53 + 1}
    teas = db.table("example_teas")
    stored = teas.insert(tea)
    assert (stored["price"], stored["barcode"]) == (tea["price"], tea["barcode"])
    print(f"inserted: {stored['name']} at {stored['price']}, barcode {stored['barcode']}")
    many = teas.insert_many([{"user_id": claims["sub"], **tea} for tea in TEAS])
    print(f"inserted: {len(many)} more")

    pages = teas.eq("user_id", claims["sub"]).limit(2).pages()
    for number, rows in enumerate(pages, start=1):
        print(f"page {number}:", " | ".join(row["name"] for row in rows))

    result = db.query(
        "select name, price from example_teas where user_id = $1 and price < $2 order by price",
        [claims["sub"], 10],
    )
    print("under 10:", " | ".join(f"{row['name']} {row['price']}" for row in result["rows"]))

    try:
        db.table("example_tea").page()
    except RowhouseError as error:
        if error.code != "table_not_found":
            raise
        print(f"refused: {error.status} {error.code}: {error}")
    print("done")


def settings(*names: str) -> "list[str]":
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        sys.exit(f"Please set {', '.join(missing)}: see README.md.")
    return [os.environ[name] for name in names]


if __name__ == "__main__":
    try:
        main()
    except RowhouseError as error:
        sys.exit(f"{error.code}: {error}")
    except InvalidToken as problem:
        sys.exit(f"The token is refused: {problem}.")
    except ValueError as problem:
        sys.exit(str(problem))
