"""Strategies of damaged JSON documents: sound ones with a value replaced, cut off, or garbled."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

__all__ = ["damaged_json"]

#: Values that programs seldom expect where they read another one.
ODD_VALUES: list[Any] = [
    *(None, True, False, -1, 0, 1.5, 2**63, 2**64, 10**30, float("inf"), float("nan")),
    *("", "x", "\ud800", "\x1b[2J", "x" * 300, [], {}, [5], [[]], {"": None}, {"x": []}),
]


def damaged_json(document: Any) -> st.SearchStrategy[bytes]:
    """Return documents as `document`, with some damage, in UTF-8."""
    whole = json.dumps(document).encode()

    @st.composite
    def replaced(draw: st.DrawFn) -> bytes:
        """Replace or remove one to three values, at any place."""
        root = json.loads(whole)
        for _ in range(draw(st.integers(1, 3))):
            places = list(_places(root))
            if not places:
                break
            parent, key = draw(st.sampled_from(places))
            if draw(st.booleans()) and draw(st.booleans()):
                del parent[key]
            else:
                parent[key] = draw(st.sampled_from(ODD_VALUES))
        return json.dumps(root).encode()

    @st.composite
    def garbled(draw: st.DrawFn) -> bytes:
        """Cut the text off, or replace a piece of it by other bytes."""
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
