"""Offsets of a stream of files, which detect files that arrive late.

Files are read in the order of their names, so the name of the last file that was read could be the
offset. But a file that arrives later with a smaller name would then be skipped silently. So an
offset also contains a ledger: a hash of name and size for each file that was read and still exists.
A file with a smaller name and without an entry arrived late, or was changed after it was read.
Removed files need no entry, so the ledger of a folder that is cleaned up stays small.

The newest `MAX_ENTRIES` files have one entry each. Older files share one digest, which detects a
change but not which file changed.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from amqp10msg.files import stores

#: The maximum number of files with an entry. An entry adds 8 characters to the offset.
MAX_ENTRIES = 50_000
# Bytes of a file's hash. With 50,000 entries, 1 in 5 billion late files has the hash of a file that
# was already read, and is skipped.
_HASH_BYTES = 6
# The maximum number of files that an error lists.
_MAX_NAMED = 3

#: An offset as JSON, with the last file that was read, the number of read files, and the ledger.
Offset = dict[str, Any]
#: The offset before the first file.
START: Offset = {"last": "", "count": 0}


def make_offset(paths: Sequence[str], last: str) -> Offset:
    """Return the offset after the file `last`; `paths` are all existing files in name order."""
    read_files = [path for path in paths if path <= last]
    older, newer = read_files[:-MAX_ENTRIES], read_files[-MAX_ENTRIES:]
    offset: Offset = {"last": last, "count": len(read_files)}
    if newer:
        ledger = b"".join(sorted(map(_hash_file, newer)))
        offset["ledger"] = base64.b64encode(ledger).decode("ascii")
    if older:
        offset |= {"first": newer[0], "older": _hash_files(older)}
    return offset


def files_after(paths: Sequence[str], offset: Offset, folder: str) -> list[str]:
    """Return the files after an offset, in name order.

    Args:
        paths: all existing files, in name order.
        offset: the result of `make_offset`, or of an old version without ledgers.
        folder: the input, for errors.

    Raises:
        ValueError: an unread file sorts before the last file that was read.
    """
    last = offset["last"]
    read_files = [path for path in paths if path <= last]
    if "ledger" not in offset:
        # The number of files alone does not show a late file if another file was removed.
        if len(read_files) > offset["count"]:
            raise ValueError(
                _late_files_error(folder, read_files, len(read_files) - offset["count"], last)
            )
        return list(paths[len(read_files) :])
    first = offset.get("first", "")
    entries = _parse_ledger(offset)
    late_files = [path for path in read_files if path >= first and _hash_file(path) not in entries]
    if late_files:
        raise ValueError(_late_files_error(folder, late_files, len(late_files), last))
    older = [path for path in read_files if path < first]
    if first and _hash_files(older) != offset["older"]:
        raise ValueError(
            f"{folder}: after the files with names before {first} were read, some were added, "
            f"removed or changed. An offset lists only the newest {MAX_ENTRIES:,} files, so a file "
            "may have been skipped: start again with another checkpoint, and keep fewer files"
        )
    return list(paths[len(read_files) :])


def files_between(paths: Sequence[str], start: Offset, end: Offset, folder: str) -> list[str]:
    """Return the files of a batch: after the offset `start`, up to the offset `end`.

    Raises:
        ValueError: as for `files_after`; or a file of the batch was removed or changed before it
            was read.
    """
    files = [path for path in files_after(paths, start, folder) if path <= end["last"]]
    if "ledger" not in end:
        return files
    entries = _parse_ledger(end)
    recent = [path for path in files if path >= end.get("first", "")]
    changed = [path for path in recent if _hash_file(path) not in entries]
    if changed:
        raise ValueError(_late_files_error(folder, changed, len(changed), end["last"]))
    if "ledger" in start or not start["count"]:
        removed = entries - set(map(_hash_file, recent)) - _parse_ledger(start)
        if removed:
            raise ValueError(
                f"{folder}: {len(removed):,} of the files up to {end['last']} were removed before "
                "they were read: restore them, or start again with another checkpoint"
            )
    return files


def _parse_ledger(offset: Offset) -> set[bytes]:
    """Return the hashes of single files in an offset."""
    ledger = base64.b64decode(offset.get("ledger", ""))
    return {ledger[index : index + _HASH_BYTES] for index in range(0, len(ledger), _HASH_BYTES)}


def _hash_file(path: str) -> bytes:
    """Return the ledger's entry for a file: a hash of its name and size.

    In object stores, it is a hash of the name only: reading the size would take a request per file.
    """
    size = -1
    if not stores.is_url(path):
        with contextlib.suppress(FileNotFoundError):  # removed: a later step raises the error
            size = stores.state_of(path).size
    identity = f"{path}\0{size}".encode("utf-8", "surrogateescape")
    return hashlib.blake2b(identity, digest_size=_HASH_BYTES).digest()


def _hash_files(paths: Iterable[str]) -> str:
    """Return one digest for several files."""
    return hashlib.blake2b(b"".join(sorted(map(_hash_file, paths))), digest_size=16).hexdigest()


def _late_files_error(folder: str, paths: Sequence[str], count: int, last: str) -> str:
    """Return the error text for `count` files that arrived late; `paths` are examples."""
    examples = ", ".join(paths[:_MAX_NAMED]) + (", …" if count > _MAX_NAMED else "")
    file_count = f"{count:,} file" + "s" * (count != 1)
    return (
        f"{folder}: {file_count} arrived late or changed: the names sort before {last}, which was "
        f"already read, so they would be skipped: {examples}. Rename them to sort after the last "
        "file. Names of new files must ascend, and a file must be complete when it gets its name"
    )
