"""Strategies of damaged JSON documents: valid ones with values replaced, or bytes changed."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

__all__ = ["damaged_json"]

#: Replacement values of unexpected types and sizes.
ODD_VALUES: list[Any] = [
    *(None, True, False, -1, 0, 1.5, 2**63, 2**64, 10**30, float("inf"), float("nan")),
    *("", "x", "\ud800", "\x1b[2J", "x" * 300, [], {}, [5], [[]], {"": None}, {"x": []}),
]


def damaged_json(document: Any) -> st.SearchStrategy[bytes]:
    """Return a strategy of encodings of a document with some damage."""
    whole = json.dumps(document).encode()

    @st.composite
    def replaced(draw: st.DrawFn) -> bytes:
        """Replace or remove one to three values."""
        root = json.loads(whole)
        for _ in range(draw(st.integers(1, 3))):
            places = list(_places(root))
            if not places:
                break
            parent, key = draw(st.sampled_from(places))
            if draw(st.booleans()) and draw(st.booleans()):
                del parent[key]
            else:
                # A copy: the next replacement may change a value inside of it.
                parent[key] = deepcopy(draw(st.sampled_from(ODD_VALUES)))
        return json.dumps(root).encode()

    @st.composite
    def garbled(draw: st.DrawFn) -> bytes:
        """Truncate the text, or replace a part of it."""
        start = draw(st.integers(0, len(whole)))
        end = draw(st.integers(start, len(whole)))
        piece = draw(st.sampled_from([b"", b"\0", b"\xff", b"[" * 2_000, b"1e999", b"9" * 5_000]))
        return whole[:start] + piece + (whole[end:] if draw(st.booleans()) else b"")

    odd = st.sampled_from([json.dumps(value).encode() for value in ODD_VALUES])
    deep = st.sampled_from([b"[" * 200_000, b'{"a":' * 100_000, b"[" * 500 + b"]" * 500])
    return replaced() | garbled() | odd | deep


def _places(root: Any) -> Any:
    """Yield the container and the key or index of each value below a value."""
    items = root.items() if isinstance(root, dict) else enumerate(root)
    for key, value in list(items):
        yield root, key
        if isinstance(value, (dict, list)):
            yield from _places(value)
