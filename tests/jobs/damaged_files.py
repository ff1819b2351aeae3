"""Files of messages in every form, and the ways in which each can be damaged."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.captures import block, cut, packet, pcap, pcapng, stream_of
from tests.files.test_event_hubs import EVENT, written
from tests.jobs.job_inputs import SOUND

#: Messages in each file.
COUNT = 40
WIRES = SOUND[:COUNT]


def _jsonl() -> bytes:
    return b"".join(json.dumps({"raw": wire.hex()}).encode() + b"\n" for wire in WIRES)


def _cborseq() -> bytes:
    return b"".join(b"\x59" + len(wire).to_bytes(2, "big") + wire for wire in WIRES)


def _packets() -> list[bytes]:
    # A packet ends within a message, so that half a capture has half a message.
    return [packet(piece) for piece in cut(stream_of(WIRES), [101])]


def _parquet() -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table({"wire": WIRES}), stream, compression="none")
    return stream.getvalue()


#: By suffix: a sound file.
FORMS: dict[str, Callable[[], bytes]] = {
    "bin": lambda: b"".join(len(wire).to_bytes(4, "big") + wire for wire in WIRES),
    "jsonl": _jsonl,
    "jsonl.gz": lambda: gzip.compress(_jsonl(), mtime=0),
    "cborseq": _cborseq,
    "pcap": lambda: pcap(_packets()),
    "pcapng": lambda: pcapng(_packets()),
    "avro": lambda: written(*[EVENT] * COUNT),
    "parquet": _parquet,
}
#: Bytes of each form that are not all of its header, or of its first record.
_IN_HEADER = {"bin": 2, "cborseq": 2, "pcap": 10, "pcapng": 10, "avro": 20, "parquet": 3}


def _garbage(octets: bytes) -> bytes:
    return b"\xde" + random.Random(5).randbytes(len(octets)) + b"\xad"


#: By name: how a file is damaged.
DAMAGES: dict[str, Callable[[str, bytes], bytes]] = {
    "empty": lambda _suffix, _octets: b"",
    "zeroed": lambda _suffix, octets: bytes(len(octets)),
    "garbage": lambda _suffix, octets: _garbage(octets),
    "cut in the header": lambda suffix, octets: octets[: _IN_HEADER.get(suffix, 7)],
    "cut in the middle": lambda _suffix, octets: octets[: len(octets) * 5 // 9],
    "zeros at the end": lambda _suffix, octets: (
        octets[: len(octets) * 5 // 9] + bytes(len(octets) * 4 // 9)
    ),
    "compressed": lambda _suffix, octets: bz2.compress(octets),
    "of another form": lambda suffix, _octets: (
        _jsonl() if suffix in {"pcap", "pcapng", "avro", "parquet", "bin"} else block(9, b"other")
    ),
}
#: No bytes are a sound file without messages.
SOUND_IF_EMPTY = {"bin", "jsonl", "cborseq"}


def cases() -> list[tuple[str, str]]:
    """Each suffix with each damage that leaves the file damaged."""
    return [
        (suffix, damage)
        for suffix in FORMS
        for damage in DAMAGES
        if not (damage == "empty" and suffix in SOUND_IF_EMPTY)
    ]


def write_damaged(folder: Path, suffix: str, damage: str) -> Path:
    """Write a damaged file; return its path."""
    name = f"{suffix.replace('.', '-')}-{damage.replace(' ', '-')}.{suffix}"
    path = folder / (f"{name}.bz2" if damage == "compressed" else name)
    path.write_bytes(DAMAGES[damage](suffix, FORMS[suffix]()))
    return path
