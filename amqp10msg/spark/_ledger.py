"""Offsets of a stream of files: what was read, so that a file that arrives late is noticed.

Files are read in the order of their names, so an offset could be the last name alone. But then
nobody would notice a file that arrives late, with a name before that one: it would never be read.
So an offset also has a ledger: a hash of the name and the size of each file that was read and is
still there. A file that is not in the ledger, and whose name sorts before the last one, arrived
late, or was changed after it was read. Files that were removed need no entry, so a folder that is
tidied up has a small ledger.

The newest `MAX_ENTRIES` files have an entry each; those before share a digest, which only tells
that something changed among them.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from amqp10msg.files import stores

#: Files that have an entry each; an offset has at most 8 characters for each of them.
MAX_ENTRIES = 50_000
# Bytes of the hash of a file: one of 50,000 late files in 5 billion is taken for one that was read.
_HASH_BYTES = 6
# Files that an error names.
_MAX_NAMED = 3

Offset = dict[str, Any]
#: Before the first file.
START: Offset = {"last": "", "count": 0}


def offset_of(paths: Sequence[str], last: str) -> Offset:
    """Return the offset after the file `last`.

    `paths` are the files that are there, in the order of their names.
    """
    read = [path for path in paths if path <= last]
    older, newer = read[:-MAX_ENTRIES], read[-MAX_ENTRIES:]
    offset: Offset = {"last": last, "count": len(read)}
    if newer:
        packed = b"".join(sorted(map(_hash, newer)))
        offset["ledger"] = base64.b64encode(packed).decode("ascii")
    if older:
        offset |= {"first": newer[0], "older": _digest(older)}
    return offset


def unread(paths: Sequence[str], offset: Offset, folder: str) -> list[str]:
    """Return the files after an offset, in order.

    Args:
        paths: the files that are there, in order of their names.
        offset: made by `offset_of`, or by a version of this library before it had ledgers.
        folder: what errors call the input.

    Raises:
        ValueError: a file that was not read sorts before the last one that was.
    """
    last = offset["last"]
    read = [path for path in paths if path <= last]
    if "ledger" not in offset:
        # The count alone does not tell a late file from one that replaced a removed file.
        if len(read) > offset["count"]:
            raise ValueError(_late(folder, read, len(read) - offset["count"], last))
        return list(paths[len(read) :])
    first = offset.get("first", "")
    entries = _entries(offset)
    late = [path for path in read if path >= first and _hash(path) not in entries]
    if late:
        raise ValueError(_late(folder, late, len(late), last))
    older = [path for path in read if path < first]
    if first and _digest(older) != offset["older"]:
        raise ValueError(
            f"{folder}: files whose names sort before {first}, and which are read already, were "
            f"added, removed or changed; an offset lists only the {MAX_ENTRIES:,} files after "
            "them, so whether a file was lost is unknown: start again with another checkpoint, or "
            "keep fewer files"
        )
    return list(paths[len(read) :])


def between(paths: Sequence[str], start: Offset, end: Offset, folder: str) -> list[str]:
    """Return the files of a batch: those after one offset, up to another.

    Raises:
        ValueError: as `unread`; or a file of the batch was removed or changed before it was read.
    """
    found = [path for path in unread(paths, start, folder) if path <= end["last"]]
    if "ledger" not in end:
        return found
    entries = _entries(end)
    listed = [path for path in found if path >= end.get("first", "")]
    changed = [path for path in listed if _hash(path) not in entries]
    if changed:
        raise ValueError(_late(folder, changed, len(changed), end["last"]))
    if "ledger" in start or not start["count"]:
        removed = entries - set(map(_hash, listed)) - _entries(start)
        if removed:
            raise ValueError(
                f"{folder}: {len(removed):,} of the files up to {end['last']} were removed before "
                "they were read: put them back, or start again with another checkpoint"
            )
    return found


def _entries(offset: Offset) -> set[bytes]:
    packed = base64.b64decode(offset.get("ledger", ""))
    return {packed[at : at + _HASH_BYTES] for at in range(0, len(packed), _HASH_BYTES)}


def _hash(path: str) -> bytes:
    """Return the entry of a file: its name, and its size, which in a store would take a request."""
    size = -1
    if not stores.is_url(path):
        with contextlib.suppress(FileNotFoundError):  # removed since: reading it will say so
            size = stores.state_of(path).size
    said = f"{path}\0{size}".encode("utf-8", "surrogateescape")
    return hashlib.blake2b(said, digest_size=_HASH_BYTES).digest()


def _digest(paths: Iterable[str]) -> str:
    return hashlib.blake2b(b"".join(sorted(map(_hash, paths))), digest_size=16).hexdigest()


def _late(folder: str, paths: Sequence[str], count: int, last: str) -> str:
    named = ", ".join(paths[:_MAX_NAMED]) + (", …" if count > _MAX_NAMED else "")
    files = f"{count:,} file" + "s" * (count != 1)
    return (
        f"{folder}: {files} came, or changed, whose names sort before {last}, which is read "
        f"already: among {named}. They would never be read: names must rise, and files must be "
        "complete when they get their names. Give them names after the last one"
    )
