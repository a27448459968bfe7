"""Verifies a user's access token with Python's standard library and nothing but the project key.

Two lines come in: the token and the key. The claims go out as JSON; a token that is not good ends with status 1.
"""

import base64
import hashlib
import hmac
import json
import sys
import time


def main() -> None:
    token, key = sys.stdin.read().splitlines()
    parts = token.split(".")
    if len(parts) != 3:
        refuse("it has not three parts")
    header, payload, signature = parts
    if json.loads(decode(header))["alg"] != "HS256":
        refuse("its algorithm is not HS256")
    expected = hmac.new(key.encode(), f"{header}.{payload}".encode(), hashlib.sha256).digest()
    if not hmac.compare_digest(expected, decode(signature)):
        refuse("its signature is wrong")
    claims = json.loads(decode(payload))
    if claims["exp"] <= time.time():
        refuse("it has expired")
    print(json.dumps(claims))


def decode(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def refuse(why: str) -> None:
    sys.exit(f"refused: {why}")


main()
