"""Verification of access tokens, without a request."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

from ._errors import InvalidToken


def verify_token(token: str, key: str, project: str) -> dict[str, Any]:
    """The claims of a user's access token, checked with nothing but the project key; or InvalidToken.

    It cannot see whether the user has signed out meanwhile: the service does, wherever the token is used.
    """
    parts = token.split(".")
    if len(parts) != 3:
        raise InvalidToken("it has not three parts")
    # The signature comes first, and always by HS256: nothing of a stranger's is parsed, nor chooses the algorithm.
    made = hmac.new(key.encode(), f"{parts[0]}.{parts[1]}".encode(), hashlib.sha256).digest()
    if not hmac.compare_digest(base64.urlsafe_b64encode(made).rstrip(b"="), parts[2].encode()):
        raise InvalidToken("its signature is wrong")
    header, claims = (_decode(part) for part in parts[:2])
    if header.get("alg") != "HS256":
        raise InvalidToken("its algorithm is not HS256")
    if claims.get("iss") != f"rowhouse-auth:{project}":
        raise InvalidToken("it is of another project")
    if not isinstance(claims.get("exp"), int) or claims["exp"] <= time.time():
        raise InvalidToken("it has expired")
    return claims


def _decode(part: str) -> dict[str, Any]:
    try:
        value = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidToken("it holds no JSON object")
    return value
