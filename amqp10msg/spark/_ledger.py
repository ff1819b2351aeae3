"""Offsets of a stream of files, which may arrive in any order.

An offset contains a ledger: an entry for each file that was read and still exists, made of hashes
of its name and of its size and modification time. The files of a batch are those with an entry in
the offset at its end and none in the offset at its start. So a batch that is repeated after a
failure has the same files, and no file is read twice or left out, whatever its name.

Removed files need no entry, so the ledger of a folder that is cleaned up stays small. A maximum age
bounds the ledger of a folder that is not: files that are older than the newest file by more than
this age lose their entries, and are ignored from then on.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from amqp10msg.files.stores import State

#: The maximum number of files with an entry. An entry adds 11 characters to the offset.
MAX_ENTRIES = 500_000
# Bytes of the hashes in an entry. With 500,000 files, 1 in 500 million new files has the hash of
# a name that was read, and is taken for a changed file.
_NAME_BYTES, _STATE_BYTES = 6, 2
_ENTRY_BYTES = _NAME_BYTES + _STATE_BYTES
# The maximum number of files that an error lists.
_MAX_LISTED_FILES = 3

#: An offset as JSON.
#:
#: - count: the number of files that were read.
#: - newest: the latest modification time of these files, in ns since the Unix epoch.
#: - oldest: files that were modified before this time have no entry, unless the last batch read
#:   them; 0 if no entry was dropped for its age.
#: - ledger: the entries, in base 64.
Offset = dict[str, Any]
#: The offset before the first file.
START_OFFSET: Offset = {"count": 0, "newest": 0, "oldest": 0, "ledger": ""}


@attrs.frozen
class Listing:
    """The files of a folder, compared with an offset.

    Attributes:
        read: files that were read before the offset.
        new: files that were not, the oldest first.
        ignored: files that were not read and are too old to have an entry.
    """

    read: tuple[str, ...]
    new: tuple[str, ...]
    ignored: tuple[str, ...]


def compare(
    states: Mapping[str, State], offset: Offset, folder: str, *, reads_changed_files: bool = False
) -> Listing:
    """Compare the files of a folder with an offset.

    Args:
        states: all existing files.
        offset: the result of `make_offset`, or `START_OFFSET`.
        folder: the input, for errors.
        reads_changed_files: whether a file that changed after it was read is a new file.

    Raises:
        ValueError: a file changed after it was read, and `reads_changed_files` is false.
    """
    entries = _parse_ledger(offset)
    read: list[str] = []
    new: list[str] = []
    ignored: list[str] = []
    changed: list[str] = []
    for path, state in states.items():
        name_hash = _hash_name(path)
        if name_hash in entries:
            if entries[name_hash] == _hash_state(state):
                read.append(path)
            else:
                (new if reads_changed_files else changed).append(path)
        elif state.changed < offset["oldest"]:
            ignored.append(path)
        else:
            new.append(path)
    if changed:
        raise ValueError(_changed_files_error(folder, changed))
    new.sort(key=lambda path: (states[path].changed, path))
    return Listing(tuple(read), tuple(new), tuple(ignored))


def make_offset(
    states: Mapping[str, State],
    start: Offset,
    listing: Listing,
    batch: Iterable[str],
    max_age: int | None,
) -> Offset:
    """Return the offset after a batch.

    Args:
        states: all existing files.
        start: the offset before the batch.
        listing: the files compared with `start`.
        batch: the files of the batch.
        max_age: how much older than the newest file a file with an entry may be, in ns; None for
            any age.

    Raises:
        ValueError: the ledger would have more than `MAX_ENTRIES` entries.
    """
    batch = list(batch)
    newest = max([start["newest"], *(states[path].changed for path in batch)])
    oldest = start["oldest"]
    if max_age is not None:
        oldest = max(oldest, newest - max_age)
    kept = [path for path in listing.read if states[path].changed >= oldest]
    entries = sorted(_hash_name(path) + _hash_state(states[path]) for path in (*kept, *batch))
    if len(entries) > MAX_ENTRIES:
        raise ValueError(
            f"{len(entries):,} files that were read are still in the folder, and a checkpoint "
            f"lists at most {MAX_ENTRIES:,}: delete or archive them (cleanSource), or set "
            "maxFileAge"
        )
    return {
        "count": start["count"] + len(batch),
        "newest": newest,
        "oldest": oldest,
        "ledger": base64.b64encode(b"".join(entries)).decode("ascii"),
    }


def files_between(
    states: Mapping[str, State], start: Offset, end: Offset, folder: str
) -> list[str]:
    """Return the files of the batch between two offsets, the oldest first.

    Args:
        states: all existing files.
        start: the offset before the batch.
        end: the offset after the batch.
        folder: the input, for errors.

    Raises:
        ValueError: a file of the batch was removed or changed before it was read.
    """
    batch = _parse_ledger(end).items() - _parse_ledger(start).items()
    states_by_name_hash = dict(batch)
    found: list[str] = []
    changed: list[str] = []
    for path, state in states.items():
        expected = states_by_name_hash.pop(_hash_name(path), None)
        if expected is not None:
            (found if expected == _hash_state(state) else changed).append(path)
    if changed:
        raise ValueError(_changed_files_error(folder, changed))
    if states_by_name_hash:
        raise ValueError(
            f"{folder}: {len(states_by_name_hash):,} of the {len(batch):,} files of a batch were "
            "removed before they were read: restore them, or start again with another checkpoint"
        )
    return sorted(found, key=lambda path: (states[path].changed, path))


def _parse_ledger(offset: Offset) -> dict[bytes, bytes]:
    """Return the entries of an offset: the hash of a file's state by the hash of its name.

    Raises:
        ValueError: it is not an offset of `make_offset`.
    """
    ledger = base64.b64decode(offset["ledger"])
    return {
        ledger[index : index + _NAME_BYTES]: ledger[index + _NAME_BYTES : index + _ENTRY_BYTES]
        for index in range(0, len(ledger), _ENTRY_BYTES)
    }


def _hash_name(path: str) -> bytes:
    """Return the hash of a file's path."""
    encoded = path.encode("utf-8", "surrogateescape")
    return hashlib.blake2b(encoded, digest_size=_NAME_BYTES).digest()


def _hash_state(state: State) -> bytes:
    """Return the hash of a file's size and modification time."""
    text = f"{state.size} {state.changed}"
    return hashlib.blake2b(text.encode(), digest_size=_STATE_BYTES).digest()


def _changed_files_error(folder: str, paths: list[str]) -> str:
    """Return the error text for files that changed after they were read, or before a repetition."""
    examples = ", ".join(sorted(paths)[:_MAX_LISTED_FILES]) + (
        ", …" if len(paths) > _MAX_LISTED_FILES else ""
    )
    verb = "files were" if len(paths) > 1 else "file was"
    return (
        f"{folder}: {len(paths):,} {verb} written to after being read: {examples}. What was added "
        "would be left out: write new messages to a new file, which gets its name when it is "
        "complete. To read again, start with another checkpoint"
    )
