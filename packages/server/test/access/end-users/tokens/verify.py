"""Token, key and project come in, a line each; the claims go out as JSON, or why the token is refused."""

import json
import sys
import types
from pathlib import Path

# Without the rest of the package, which needs httpx.
package = types.ModuleType("rowhouse")
package.__path__ = [str(Path(__file__).resolve().parents[4] / "clients" / "python" / "src" / "rowhouse")]
sys.modules["rowhouse"] = package

from rowhouse._errors import InvalidToken  # noqa: E402
from rowhouse._tokens import verify_token  # noqa: E402

try:
    print(json.dumps(verify_token(*sys.stdin.read().splitlines())))
except InvalidToken as problem:
    sys.exit(f"refused: {problem}")
