"""Each class for asyncio has what its counterpart that blocks has, with the same arguments."""

import inspect
import re
import unittest
from typing import Any, Dict

import rowhouse

PAIRS = ["Account", "Client", "Table", "Users"]
# What the language itself calls otherwise in asyncio.
SPECIAL = {"__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__"}


def shape(cls: Any) -> Dict[str, str]:
    """The public names and the special ones that count, each with its signature, in the words of the class that blocks."""
    shown = {}
    for name, value in inspect.getmembers(cls):
        plain = SPECIAL.get(name, name)
        if name.startswith("_") and plain not in ("__init__", *SPECIAL.values()):
            continue
        shown[plain] = re.sub("Async", "", str(inspect.signature(value))) if callable(value) else type(value).__name__
    return shown


class Pairs(unittest.TestCase):
    def test_each_pair_has_the_same_names_and_signatures(self) -> None:
        self.maxDiff = None
        for name in PAIRS:
            with self.subTest(name):
                self.assertEqual(shape(getattr(rowhouse, name)), shape(getattr(rowhouse, f"Async{name}")))

    def test_every_class_for_asyncio_is_compared(self) -> None:
        found = [name[len("Async") :] for name in rowhouse.__all__ if name.startswith("Async")]
        self.assertEqual(sorted(found), PAIRS)
