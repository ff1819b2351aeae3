"""``python -m fuzz.files``: damaged captures and files, of which only the damaged part may be lost.

For any bytes, the readers of `amqp10msg.files` must return records with attributes of the types and
ranges that `Record` documents, or raise ValueError if the file as a whole is invalid. Intact parts
must be read: the other connections of a capture, the lines around a damaged JSON line, the messages
before the damage in other formats.

With ``--memory`` the readers run in processes with limited memory, none of which may crash.

A violation is printed, and its file stored in fuzz/findings with the format as the suffix.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import hashlib
import io
import json
import multiprocessing
import random
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amqp10msg.files import MAX_SIZE as DEFAULT_SIZE
from amqp10msg.files import Record, containers
from amqp10msg.files.reading import read_stream
from fuzz.mutate import mutate
from fuzz.shapes import EDGES
from tests.captures import (
    DELIVER,
    GET_OK,
    HEADER,
    OLD_HEADER,
    PUBLISH,
    RETURN,
    Piece,
    attach,
    content,
    cut,
    packet,
    pcap,
    pcapng,
    stream_of,
    transfer,
)

FINDINGS = Path(__file__).with_name("findings")
#: Limit of a message in bytes; a damaged size can claim more.
MAX_SIZE = 1 << 16
GOOD = [b"\x00\x53\x75\xa0\x04good", b"\x00\x53\x75\xa0\x05again", b"\x00\x53\x77\x40"]
# Microseconds from the Unix epoch to the end of the year 9999.
_LAST_TIME = 253_402_300_799_999_999


def _optional(*kinds: type) -> Callable[[Any], bool]:
    """Return a predicate for None and values of these types; bool is no subclass of int here."""
    return lambda value: (
        value is None or (isinstance(value, kinds) and (type(value) is not bool or bool in kinds))
    )


def _number(least: int, most: int) -> Callable[[Any], bool]:
    return lambda value: (
        type(value) is not bool and isinstance(value, int) and (least <= value <= most)
    )


_BYTES, _TEXT = _optional(bytes), _optional(str)
_FITS: dict[str, Callable[[Any], bool]] = {
    "offset": _number(0, (1 << 63) - 1),
    "wire": _BYTES,
    "fault": lambda value: isinstance(value, str),
    "protocol": lambda value: value in {"1.0", "0-9-1"},
    "time": lambda value: value is None or _number(0, _LAST_TIME)(value),
    "connection": _TEXT,
    "address": _TEXT,
    "delivery_tag": _BYTES,
    "message_format": lambda value: value is None or _number(0, (1 << 32) - 1)(value),
    "content_header": _BYTES,
    "payload": _BYTES,
    "exchange": _TEXT,
    "routing_key": _TEXT,
    "redelivered": _optional(bool),
    "origin": _TEXT,
    "ends": lambda value: type(value) is bool,
}


def records(octets: bytes, form: str, max_size: int = MAX_SIZE) -> list[Record]:
    """Read a file, decompressed if it is gzip.

    Args:
        octets: the file.
        form: one of `FORMS`; the format of the content for gzip.
        max_size: the largest message in bytes.

    Raises:
        AssertionError: a record violates the documentation of `Record`.
        Exception: an exception of the reader.
    """
    stream = containers.unpacked(io.BufferedReader(io.BytesIO(octets)))
    found = list(read_stream(stream, form, max_size=max_size))
    for record in found:
        for name, fits in _FITS.items():
            value = getattr(record, name)
            if not fits(value):
                raise AssertionError(f"{name} is {value!r:.100}")
        for text in (record.fault, record.connection, record.address, record.origin):
            (text or "").encode()
    return found


def _performative(draw: random.Random) -> bytes:
    """Return a frame whose performative has some unusual values."""
    values = [draw.choice(EDGES) if draw.random() < 0.5 else b"\x43" for _ in range(14)]
    values = values[: draw.randrange(15)]
    descriptor = draw.choice(
        [b"\x53" + bytes([draw.choice((0x12, 0x14, 0x16, 0x17, 0x18))])] * 3 + [draw.choice(EDGES)]
    )
    body = b"".join(values)
    fields = b"\xd0" + (4 + len(body)).to_bytes(4, "big") + len(values).to_bytes(4, "big") + body
    whole = b"\0" + descriptor + fields + draw.choice(GOOD)
    return (8 + len(whole)).to_bytes(4, "big") + b"\x02\0\0\0" + whole


def _streams() -> list[bytes]:
    """Return the bytes of connections of both protocols."""
    old = [content(method, b"hello" * 4, 2) for method in (PUBLISH, DELIVER, GET_OK, RETURN)]
    return [
        stream_of([b"one", b"two" * 20], 2),
        HEADER + attach(0, "q") + transfer(0, b"m", 0, more=True) + transfer(0, b"n", 0),
        OLD_HEADER + b"".join(old),
    ]


def _beside(draw: random.Random) -> tuple[bytes, list[bytes]]:
    """Return a capture of two connections, one of which sends invalid bytes."""
    octets = draw.choice(_streams())
    if draw.random() < 0.5:
        octets = HEADER + attach(0, "q") + transfer(0, b"m", 0, more=True)
        octets += b"".join(_performative(draw) for _ in range(draw.randint(1, 4)))
    else:
        octets = mutate([octets], draw)
    odd = [packet(piece) for piece in cut(octets, [draw.randint(20, 200)])]
    sane = [
        packet(Piece(piece.sequence, piece.data, piece.flags, back=True))
        for piece in cut(stream_of(GOOD), [40])
    ]
    order = sorted([0] * len(odd) + [1] * len(sane), key=lambda _: draw.random())
    mixed = [(sane if which else odd).pop(0) for which in order]
    return (pcap if draw.random() < 0.5 else pcapng)(mixed), GOOD


def _captures(draw: random.Random) -> tuple[bytes, str, list[bytes]]:
    if draw.random() < 0.5:
        return (octets := _beside(draw))[0], "pcap", octets[1]
    packets = [packet(piece) for piece in cut(draw.choice(_streams()), [draw.randint(20, 90)])]
    whole = draw.choice((pcap, pcapng))(packets, draw.choice("<>"))
    return mutate([whole], draw), "pcap", []


def _lines(draw: random.Random) -> tuple[bytes, str, list[bytes]]:
    lines = [json.dumps({"raw": octets.hex(), "address": "q"}).encode() for octets in GOOD]
    odd = draw.choice(
        [
            b'{"data_base64": "AFN1oAA=", "delivery_tag": "00", "message_format": 1}',
            b'{"raw": "0053", "address": "\\ud800"}',
            b'{"kind": "message", "data": "00"}',
            b"[" * draw.choice((1, 100, 5_000)),
            b'{"raw":' * 500,
            b"1" * draw.choice((1, 5_000)),
            b"",
        ]
    )
    odd = mutate([odd or b" "], draw).replace(b"\n", b" ").replace(b"\r", b" ")
    return b"\n".join([lines[0], odd, *lines[1:]]) + b"\n", "jsonl", GOOD


def _prefixed(draw: random.Random) -> tuple[bytes, str, list[bytes]]:
    whole = b"".join(len(octets).to_bytes(4, "big") + octets for octets in GOOD)
    tail = mutate([whole], draw)
    return whole + tail, "prefixed", GOOD


def _cborseq(draw: random.Random) -> tuple[bytes, str, list[bytes]]:
    whole = b"".join(bytes([0x40 | len(octets)]) + octets for octets in GOOD)
    return whole + mutate([whole], draw), "cborseq", GOOD


def _gzip(draw: random.Random) -> tuple[bytes, str, list[bytes]]:
    octets, form, beside = draw.choice((_captures, _lines, _prefixed, _cborseq))(draw)
    packed = gzip.compress(octets, mtime=0)
    return (packed, form, beside) if draw.random() < 0.3 else (mutate([packed], draw), form, [])


def _parquet(draw: random.Random) -> tuple[bytes, str, list[bytes]]:
    if draw.random() < 0.5:
        return mutate([draw.choice(_TABLES)], draw), "parquet", []
    # Damage in the second of three row groups.
    whole, (begin, end) = _groups()
    octets = bytearray(whole)
    for _ in range(draw.randint(1, 4)):
        octets[draw.randrange(begin, end)] = draw.getrandbits(8)
    return bytes(octets), "parquet", GOOD[:2]


def _avro(draw: random.Random) -> tuple[bytes, str, list[bytes]]:
    return mutate([draw.choice(_AVROS)], draw), "avro", []


@functools.cache
def _groups() -> tuple[bytes, tuple[int, int]]:
    """Return a table of three row groups, and the byte range of the second one."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    out = io.BytesIO()
    wires = [GOOD[0]] * 5 + [GOOD[2]] * 5 + [GOOD[1]] * 5
    pq.write_table(pa.table({"wire": wires, "address": ["q"] * 15}), out, row_group_size=5)
    metadata = pq.ParquetFile(out).metadata
    begins = [metadata.row_group(group).column(0).dictionary_page_offset for group in (1, 2)]
    return out.getvalue(), (begins[0], begins[1])


def _tables() -> list[bytes]:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    made = []
    for column in (pa.array(GOOD * 20), pa.array(GOOD * 20).dictionary_encode()):
        out = io.BytesIO()
        table = pa.table({"wire": column, "address": ["q"] * len(column)})
        pq.write_table(table, out)
        made.append(out.getvalue())
    return made


def _avros() -> list[bytes]:
    from tests.files.test_event_hubs import EVENT, written  # noqa: PLC0415

    return [written(*[EVENT] * 4), written(EVENT, codec="deflate")]


_TABLES: list[bytes] = []
_AVROS: list[bytes] = []
#: Functions that create a file of a format, with the messages that must be read from it.
FORMS: dict[str, Callable[[random.Random], tuple[bytes, str, list[bytes]]]] = {
    "pcap": _captures,
    "jsonl": _lines,
    "prefixed": _prefixed,
    "cborseq": _cborseq,
    "gzip": _gzip,
    "parquet": _parquet,
    "avro": _avro,
}


def fault_of(octets: bytes, form: str, beside: list[bytes], max_size: int = MAX_SIZE) -> str:
    """Read a file; return the violation of the contract, or an empty text."""
    try:
        found = records(octets, form, max_size)
    except ValueError as error:
        if form in {"parquet", "avro"} and type(error) is ValueError:
            return ""
        return traceback.format_exc(limit=-3)
    except Exception:  # noqa: BLE001  (that is what is looked for)
        return traceback.format_exc(limit=-3)
    whole = [record.wire for record in found if not record.fault]
    lost = [wire for wire in beside if wire not in whole]
    return f"of what is whole {len(lost)} messages are lost" if lost else ""


def run(
    count: int,
    seed: int | str,
    forms: list[str],
    kept: Path | None = FINDINGS,
    begun: Callable[[bytes], object] = lambda _: None,
    max_size: int = MAX_SIZE,
) -> list[str]:
    """Read `count` damaged files of alternating formats; return the violations.

    Args:
        count: the number of files.
        seed: the seed of the damage.
        forms: a selection of `FORMS`.
        kept: the folder for files with a violation; None to store none.
        begun: called with each file before it is read.
        max_size: the largest message in bytes.
    """
    draw = random.Random(seed)
    if "parquet" in forms:
        _TABLES[:] = _TABLES or _tables()
    if "avro" in forms:
        _AVROS[:] = _AVROS or _avros()
    faults = []
    for number in range(count):
        octets, form, beside = FORMS[forms[number % len(forms)]](draw)
        begun(octets)
        fault = fault_of(octets, form, beside, max_size)
        if fault:
            faults.append(fault)
            if kept is not None:
                _keep(kept, octets, form, fault)
    return faults


def _keep(folder: Path, octets: bytes, form: str, fault: str) -> None:
    folder.mkdir(exist_ok=True)
    name = f"files-{hashlib.sha256(octets).hexdigest()[:16]}.{form}"
    (folder / name).write_bytes(octets)
    print(f"FINDING {name}: {fault.strip()}", file=sys.stderr, flush=True)


# Files that one process reads.
_AT_ONCE = 2_000


def run_bounded(count: int, seed: int, form: str, memory: int, kept: Path) -> int:
    """Read damaged files in processes with limited memory; return the number of violations.

    A crash of a process counts as a violation of the file that it was reading.

    Args:
        count: the number of files.
        seed: the seed of the damage.
        form: one of `FORMS`.
        memory: the limit in bytes, in addition to a process's initial memory.
        kept: the folder for files with a violation.
    """
    context = multiprocessing.get_context("fork")
    faults = context.Value("q", 0)
    kept.mkdir(exist_ok=True)
    current = kept / f"current.{form}"
    for number, first in enumerate(range(0, count, _AT_ONCE)):
        todo = min(_AT_ONCE, count - first)
        task = (todo, f"{seed}-{number}", form, memory, kept, current, faults)
        process = context.Process(target=_bounded, args=task)
        process.start()
        process.join()
        if process.exitcode:
            said = f"the process ended with status {process.exitcode}"
            _keep(kept, current.read_bytes(), form, said)
            faults.value += 1
    current.unlink(missing_ok=True)
    return int(faults.value)


def _bounded(
    count: int, seed: str, form: str, memory: int, kept: Path, current: Path, faults: Any
) -> None:
    import resource  # noqa: PLC0415  (of POSIX)

    run(1, seed, [form], None)  # imports what the form needs
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    faults.value += len(run(count, seed, [form], kept, current.write_bytes, DEFAULT_SIZE))


def main() -> int:
    """Run until the inputs are used up; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.files", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--form", action="append", choices=FORMS, help="default: all")
    parser.add_argument(
        "--memory", type=int, metavar="MIB", help="read in processes that get no more memory"
    )
    chosen = parser.parse_args()
    begin = time.perf_counter()
    forms = chosen.form or [*FORMS]
    if chosen.memory is None:
        faults = len(run(chosen.inputs, chosen.seed, forms))
    else:
        each = chosen.inputs // len(forms)
        faults = sum(
            run_bounded(each, chosen.seed, form, chosen.memory << 20, FINDINGS) for form in forms
        )
    seconds = time.perf_counter() - begin
    print(f"{chosen.inputs:,} inputs, {faults} faults, {seconds:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
