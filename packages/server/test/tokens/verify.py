"""Token, key and project come in, a line each; the claims go out as JSON, or why the token is refused."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "examples" / "python"))

from rowhouse import InvalidToken, verify_token  # noqa: E402

try:
    print(json.dumps(verify_token(*sys.stdin.read().splitlines())))
except InvalidToken as problem:
    sys.exit(f"refused: {problem}")
