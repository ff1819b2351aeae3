"""Texts that rules of Part 3 allow: MIME types, content codings, keys of annotations."""

from __future__ import annotations

import re

# A token holds no space and none of the separators, so that there is one way to match and the time
# is linear.
_TOKEN = r"[!#$%&'*+\-.0-9A-Z^_`a-z{|}~]+"  # noqa: S105  (no password)
#: RFC 2045, 5.1: type "/" subtype \*(";" attribute "=" value).
MIME_TYPE = re.compile(
    rf"{_TOKEN}/{_TOKEN}(?:[ \t]*;[ \t]*{_TOKEN}=(?:{_TOKEN}|\"(?:[^\"\\\r\n]|\\.)*\"))*[ \t]*"
)
#: The HTTP Content Coding Registry of IANA, 2025.
CODINGS = frozenset(
    (
        "aes128gcm",
        "br",
        "compress",
        "dcb",
        "dcz",
        "deflate",
        "exi",
        "gzip",
        "identity",
        "pack200-gzip",
        "x-compress",
        "x-gzip",
        "zstd",
    )
)


def is_mime_type(text: str) -> bool:
    """Return whether a text is written like a MIME type."""
    return MIME_TYPE.fullmatch(text) is not None


def is_registered_coding(text: str) -> bool:
    """Return whether a text is one registered coding in its usual form that may be used."""
    return text in CODINGS and text not in ("identity", "compress", "x-compress")


def is_free_key(key: str, known: tuple[str, ...]) -> bool:
    """Return whether a symbol is not a reserved key of annotations, or one that a profile knows.

    Args:
        key: the symbol.
        known: keys that the profile knows; one that ends with ``*`` stands for all that begin so.
    """
    return key.startswith("x-") or any(
        key.startswith(pattern[:-1]) if pattern.endswith("*") else key == pattern
        for pattern in known
    )
