"""``python -m fuzz.attacks``: the cost of hostile input at each entry point, the worst first.

An attack is an input of about 100 kB that is designed to cost much more time or memory than its
size justifies. Each entry point for such input reads it in a separate process, which reports its
CPU time and memory. ``--check`` exits with 1 if one exceeds a limit: 0.5 s of CPU for 100 kB of
input, or memory of 200 times the input. Seconds are normalized to a machine that does a unit of
work (`tests.effort`) in a millisecond, so a slow or busy machine gives about the same figures.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from amqp10msg import (
    COMPILED,
    AmqpError,
    Header,
    Limits,
    Message,
    decode_value,
    decode_values,
    delivery,
    encode_value,
    notation,
    scan,
    skip_value,
    validate,
)
from amqp10msg.basic import BasicMessage, check_content_header, decode_content_header
from amqp10msg.delivery import filters
from amqp10msg.files.capture import read_capture
from amqp10msg.files.containers import read_lines, read_prefixed
from amqp10msg.message.batch import unwrap
from amqp10msg.message.checksums import with_checksum
from amqp10msg.translate import TranslationError, to_amqp10, to_basic
from tests.effort import one_unit, processor_time

__all__ = ["ATTACKS", "ENTRY_POINTS", "Attack", "Cost", "measure"]

#: Approximate bytes of an attack.
SIZE = 100_000
#: Limit of CPU seconds for 100 kB of input; higher for the pure kernel.
SECONDS = 0.5 if COMPILED else 5.0
# Seconds of a unit of work on the reference machine of `SECONDS`.
_UNIT_SECONDS = 1e-3
#: Limit of memory, in bytes per byte of input.
MEMORY = 200
#: Limit of memory of an attack of any size, in bytes.
MOST_MEMORY = 64 << 20
#: Attacks that are known to exceed a limit, with the reason. The key is an attack, or an attack and
#: an entry point.
KNOWN: dict[tuple[str, ...], str] = {
    ("a body of empty lists", "to_typed"): "a list, one byte, is held beside the two it becomes",
    ("small messages with many empty lists", "columns.decode"): "JSON of what Limits allows",
    ("small messages with many nulls", "columns.decode"): "JSON of what Limits allows",
}
# Shorter input counts as this number of bytes, because each call has a fixed cost.
_LEAST = 20_000
# Limit of CPU seconds for each additional message of an input. The slowest entry point needs a
# quarter of that for the largest number of elements that `Limits` allows in a message of 27 bytes.
_CALL_SECONDS = 20e-3 * SECONDS / 0.5
# The memory that a measurement itself uses, and noise of touched pages.
_NOISE = 2 << 20
_KILLED = 4 if COMPILED else 20  # CPU seconds after which a measurement is killed

Make = Callable[[int], bytes]
Use = Callable[[bytes], object]


@attrs.frozen
class Attack:
    """An input that costs more than its size justifies.

    Attributes:
        name: a description of the input.
        kind: the kind of input: a key of `ENTRY_POINTS`.
        make: returns an input of about the given number of bytes.
    """

    name: str
    kind: str
    make: Make


@attrs.frozen
class Cost:
    """The cost of one attack at one entry point.

    Attributes:
        attack: the name of the attack.
        entry: the name of the entry point.
        size: bytes of the input.
        seconds: CPU time in s.
        memory: peak memory above the initial one, in bytes.
        failed: the reason why the process failed, such as a signal; empty if it succeeded.
        calls: the number of messages that the input was split into.
    """

    attack: str
    entry: str
    size: int
    seconds: float
    memory: int
    failed: str = ""
    calls: int = 1

    @property
    def per_kilobyte(self) -> float:
        """CPU seconds per kilobyte of input."""
        return self.seconds / self.size * 1e3

    @property
    def per_byte(self) -> float:
        """Bytes of memory per byte of input."""
        return self.memory / self.size

    @property
    def is_too_much(self) -> bool:
        """Whether the cost exceeds a limit, or the process failed."""
        allowed = min(MEMORY * self.size, MOST_MEMORY) + _NOISE
        seconds = SECONDS * max(self.size, _LEAST) / SIZE + _CALL_SECONDS * (self.calls - 1)
        return bool(self.failed) or self.seconds > seconds or self.memory > allowed

    @property
    def known(self) -> str:
        """The known reason for exceeding the limit, or an empty text."""
        return KNOWN.get((self.attack, self.entry)) or KNOWN.get((self.attack,), "")


# Encodings.


def _list(content: bytes, count: int) -> bytes:
    return b"\xd0" + struct.pack(">II", len(content) + 4, count) + content


def _map(content: bytes, count: int) -> bytes:
    return b"\xd1" + struct.pack(">II", len(content) + 4, count) + content


def _array(content: bytes, count: int) -> bytes:
    return b"\xf0" + struct.pack(">II", len(content) + 4, count) + content


def _binary(size: int) -> bytes:
    return b"\xb0" + struct.pack(">I", size) + bytes(size)


def _many(encoded: bytes) -> Make:
    def make(size: int) -> bytes:
        count = max(1, (size - 9) // len(encoded))
        return _list(encoded * count, count)

    return make


def _keys(key: Callable[[int], bytes]) -> Make:
    def make(size: int) -> bytes:
        count = max(1, size // (len(key(0)) + 1))
        return _map(b"".join(key(i) + b"\x40" for i in range(count)), 2 * count)

    return make


def _nested(wrap: Callable[[bytes], bytes], levels: int = 250) -> Make:
    """Return nested values around a binary that fills the remaining size."""

    def make(size: int) -> bytes:
        value = _binary(max(1, size - 15 * levels))
        for _ in range(levels):
            value = wrap(value)
        return value

    return make


def _wide_and_nested(size: int) -> bytes:
    """Return deeply nested lists, each with as many nulls as the size allows."""
    nulls = max(1, size // 250 - 9)
    value = b"\x40"
    for _ in range(250):
        value = _list(b"\x40" * nulls + value, nulls + 1)
    return value


def _fault_at_the_end(size: int) -> bytes:
    return _list(b"\x40" * (size - 10) + b"\x3f", size - 9)


def _fault_at_the_start(size: int) -> bytes:
    return b"\x3f" + bytes(size)


_MODULUS = (1 << 61) - 1
VALUES: dict[str, Make] = {
    "empty lists": _many(b"\x45"),
    "nulls": _many(b"\x40"),
    "empty maps": _many(b"\xc1\x01\x00"),
    "maps of one": _many(b"\xc1\x03\x02\x40\x40"),
    "maps with a list as key": _many(b"\xc1\x03\x02\x45\x40"),
    "empty arrays": _many(b"\xe0\x02\x00\x40"),
    "described nulls": _many(b"\x00\x40\x40"),
    "chars": _many(b"\x73\x00\x00\x00\x41"),
    "decimals": _many(b"\x94" + bytes(16)),
    "zero-width elements": lambda size: _array(b"\x40", min(size, 65_536)),
    "keys that are uuids of one hash": _keys(
        lambda i: b"\x98" + (5 + i * _MODULUS).to_bytes(16, "big")
    ),
    "keys that are longs of one place": _keys(lambda i: b"\x81" + struct.pack(">q", i << 40)),
    "keys that are lists": _keys(lambda i: b"\xc0\x0a\x01\x81" + struct.pack(">q", i)),
    "keys that are NaNs": _keys(lambda i: b"\x82\x7f\xf8" + i.to_bytes(6, "big")),
    "nested lists": _nested(lambda inner: _list(inner, 1)),
    "nested maps": _nested(lambda inner: _map(b"\x40" + inner, 2)),
    "nested map keys": _nested(lambda inner: _map(inner + b"\x40", 2)),
    "nested described": _nested(lambda inner: b"\x00\x53\x05" + inner),
    "nested descriptors": _nested(lambda inner: b"\x00" + inner + b"\x40"),
    "nested arrays": _nested(lambda inner: _array(inner, 1)),
    "nested and wide lists": _wide_and_nested,
    "a fault at the end": _fault_at_the_end,
    "a fault at the start": _fault_at_the_start,
}


def _sections(section: bytes) -> Make:
    return lambda size: section * (size // len(section))


MESSAGES: dict[str, Make] = {
    "data sections": _sections(b"\x00\x53\x75\xa0\x00"),
    "sequence sections": _sections(b"\x00\x53\x76\x45"),
    "header sections": _sections(b"\x00\x53\x70\x45"),
    "unknown sections": _sections(b"\x00\x53\x10\x45"),
    "footers": _sections(b"\x00\x53\x78\xc1\x01\x00"),
    "sections with symbols": _sections(b"\x00\xa3\x10amqp:header:list\x45"),
    "data sections that are lists": _sections(b"\x00\x53\x75\x45"),
    "data sections before one that is a list": lambda size: (
        b"\x00\x53\x75\xa0\x00" * (size // 5) + b"\x00\x53\x75\x45"
    ),
    "a large body": lambda size: b"\x00\x53\x75" + _binary(size),
    "annotations": lambda size: (
        b"\x00\x53\x72" + _keys(lambda i: b"\xa3\x08" + b"%08d" % i)(size) + b"\x00\x53\x77\x40"
    ),
    "application properties": lambda size: (
        b"\x00\x53\x74" + _keys(lambda i: b"\xa1\x08" + b"%08d" % i)(size) + b"\x00\x53\x77\x40"
    ),
    "batch envelope": lambda size: b"\x00\x53\x75\xa0\x04\x00\x53\x77\x40" * (size // 9),
}


# Many small messages, each with as many zero-width elements as `Limits` allows for its size.
_SMALL = 27


def _small_messages(code: int) -> Make:
    count = Limits().zero_width_of(_SMALL)
    message = b"\x00\x53\x72" + _map(b"\xa3\x03x-a" + _array(bytes((code,)), count), 2)
    assert len(message) == _SMALL
    return lambda size: message * max(1, size // 50 // _SMALL)


SMALL_MESSAGES: dict[str, Make] = {
    "small messages with many empty lists": _small_messages(0x45),
    "small messages with many nulls": _small_messages(0x40),
}


# AMQP 0-9-1.


def _content_header(table: bytes) -> bytes:
    return struct.pack(">HHQH", 60, 0, 0, 0x2000) + struct.pack(">I", len(table)) + table


def _fields(field: bytes) -> Make:
    def make(size: int) -> bytes:
        count = size // (len(field) + 8)
        return _content_header(b"".join(b"\x07%07d" % i + field for i in range(count)))

    return make


def _nested_tables(size: int) -> bytes:
    table = b""
    for _ in range(min(250, size // 7)):
        table = b"\x01aF" + struct.pack(">I", len(table)) + table
    return _content_header(b"\x01bx" + struct.pack(">I", size) + bytes(size) + table)


BASIC: dict[str, Make] = {
    "fields": _fields(b"V"),
    "fields of one name": lambda size: _content_header(b"\x01aV" * (size // 3)),
    "empty tables": _fields(b"F\x00\x00\x00\x00"),
    "nested tables": _nested_tables,
    "array of voids": lambda size: _content_header(
        b"\x01aA" + struct.pack(">I", size) + b"V" * size
    ),
    "array of empty arrays": lambda size: _content_header(
        b"\x01aA" + struct.pack(">I", size // 5 * 5) + b"A\0\0\0\0" * (size // 5)
    ),
}


# Captures.


def _packet(sequence: int, data: bytes, flags: int = 0x10, port: int = 50_000) -> bytes:
    tcp = struct.pack(">HHIIBBHHH", port, 5672, sequence, 0, 5 << 4, flags, 0, 0, 0) + data
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + bytes(8)
    packet = head + tcp
    return struct.pack("<IIII", 0, 0, len(packet), len(packet)) + packet


def _capture(packets: Iterator[bytes], size: int) -> bytes:
    out = bytearray(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 101))
    for packet in packets:
        out += packet
        if len(out) >= size:
            break
    return bytes(out)


_ENOUGH = 1_000_000


def _backwards() -> Iterator[bytes]:
    yield _packet(0, b"", 0x02)
    yield _packet(1, b"AMQP\x00\x01\x00\x00")
    yield from (_packet(at, b"x") for at in range(_ENOUGH, 9, -1))


def _with_gaps() -> Iterator[bytes]:
    yield _packet(0, b"", 0x02)
    yield _packet(1, b"AMQP\x00\x01\x00\x00")
    yield from (_packet(at, b"x") for at in range(10, _ENOUGH, 2))


def _overlapping() -> Iterator[bytes]:
    yield _packet(0, b"", 0x02)
    yield from (_packet(2 + at, bytes(1_000)) for at in range(_ENOUGH))


def _connections() -> Iterator[bytes]:
    yield from (_packet(1, b"AMQP\x00\x01\x00\x00", 0x02, port % 65_536) for port in range(_ENOUGH))


def _byte_by_byte() -> Iterator[bytes]:
    yield _packet(0, b"", 0x02)
    stream = b"AMQP\x00\x01\x00\x00" + struct.pack(">IBBH", 1 << 20, 2, 0, 0) + bytes(1 << 16)
    yield from (_packet(1 + at, stream[at : at + 1]) for at in range(len(stream)))


CAPTURES: dict[str, Make] = {
    "segments backwards": lambda size: _capture(_backwards(), size),
    "segments with gaps": lambda size: _capture(_with_gaps(), size),
    "segments that overlap": lambda size: _capture(_overlapping(), size),
    "connections": lambda size: _capture(_connections(), size),
    "segments of a byte": lambda size: _capture(_byte_by_byte(), size),
}


# Text.

FILES: dict[str, Make] = {
    "empty lines": lambda size: b"\n" * size,
    "nested JSON": lambda size: b"[" * size,
    "records without a message": lambda size: b"{}\n" * (size // 3),
    "sizes of zero": bytes,
    "noise": lambda size: random.Random(1).randbytes(size),
}
TYPED: dict[str, Make] = {
    "lists of nothing": lambda size: json.dumps(
        [["amqp-value", ["list", [["list", []]] * (size // 14)]]]
    ).encode(),
    "a long integer": lambda size: json.dumps([["amqp-value", ["string", "9" * size]]]).encode(),
}
# FilterLimits bounds the text of filters, mostly far below the size of other attacks.
EXPRESSIONS: dict[str, Make] = {
    "ors": lambda size: (" OR ".join(["a = 1"] * (size // 9))).encode(),
    "parentheses": lambda size: b"(" * size,
    "nots": lambda size: b"NOT " * (size // 4) + b"a",
    "a list": lambda size: b"a IN (" + b",".join([b"'b'"] * (size // 4)) + b")",
    "a pattern": lambda size: b"a LIKE '" + b"%_" * (size // 2) + b"'",
    "a string without an end": lambda size: b"a = '" + b"''" * (size // 2),
    "a number": lambda size: b"a = " + b"9" * size,
}


def _patterns(size: int) -> bytes:
    """Return a message with one property as long as the size, for the patterns below."""
    return Message("x", application_properties={"a": "a" * size}).encode()


PATTERNS: dict[str, Make] = {"a long property": _patterns}
LIKE = " OR ".join(["a LIKE '%a_b%'"] * 100)


def _files(data: bytes) -> None:
    for record in read_lines(io.BytesIO(data), 1 << 20):
        del record
    for prefixed in read_prefixed(io.BytesIO(data)):
        del prefixed


def _capture_read(data: bytes) -> None:
    for record in read_capture(io.BytesIO(data)):
        del record


def _filtered(message: bytes) -> None:
    decoded = Message.decode(message)
    for made in (filters.Selector(LIKE), filters.SqlFilter(LIKE)):
        with suppress(filters.EvaluationError):
            made.matches(decoded)


def _published(message: bytes) -> None:
    node = delivery.DistributionNode("n", clock=lambda: 0, accept_durable=True)
    node.publish(Message.decode(message))


def _columns(message: bytes, **options: Any) -> object:
    import pyarrow as pa  # noqa: PLC0415  (an extra)

    from amqp10msg.columns import decode  # noqa: PLC0415

    return decode(pa.array([message], pa.binary()), **options)


def _to_basic(message: bytes) -> None:
    decoded = Message.decode(message, strict=False)
    for profile in ("lossless", "rabbitmq-4.0"):
        with suppress(TranslationError):
            to_basic(decoded, profile=profile)


def _to_amqp10(header: bytes) -> None:
    message = BasicMessage(decode_content_header(header).properties, b"")
    for profile in ("lossless", "rabbitmq-4.0"):
        with suppress(TranslationError):
            to_amqp10(message, profile=profile)


def _each(use: Use) -> Use:
    """Return an entry point that reads each `_SMALL` bytes as a message."""

    def read(data: bytes) -> None:
        for at in range(0, len(data), _SMALL):
            with suppress(AmqpError):
                use(data[at : at + _SMALL])

    return read


def _in_columns(data: bytes) -> object:
    import pyarrow as pa  # noqa: PLC0415  (an extra)

    from amqp10msg.columns import decode  # noqa: PLC0415

    messages = [data[at : at + _SMALL] for at in range(0, len(data), _SMALL)]
    return decode(pa.array(messages, pa.binary()))


#: Entry points by the kind of input.
ENTRY_POINTS: dict[str, dict[str, Use]] = {
    "value": {
        "decode_value": decode_value,
        "decode_values": lambda data: [None for _ in decode_values(data)],
        "skip_value": skip_value,
        "encode_value": lambda data: encode_value(decode_value(data)),
        "delivery.decode": delivery.decode,
    },
    "message": {
        "Message.decode": Message.decode,
        "Message.decode, lenient": lambda data: Message.decode(data, strict=False),
        "encode": lambda data: Message.decode(data, strict=False).encode(),
        "evolve and encode": lambda data: (
            Message.decode(data, strict=False).evolve(header=Header(priority=1)).encode()
        ),
        "for_next_hop": lambda data: Message.decode(data, strict=False).for_next_hop(0, 0).encode(),
        "sections": lambda data: Message.decode(data, strict=False).sections(),
        "equality": lambda data: Message.decode(data) == Message.decode(data),
        "repr": lambda data: repr(Message.decode(data, strict=False)),
        "scan": scan,
        "scan and replace": lambda data: scan(data).replace(header=Header(priority=1)),
        "validate": validate,
        "to_typed": lambda data: notation.to_typed(Message.decode(data)),
        "to_plain": lambda data: notation.to_plain(Message.decode(data)),
        "render_text": lambda data: notation.render_text(notation.parse_tree(data, limit=1_000)),
        "batch.unwrap": lambda data: list(unwrap(Message.decode(data))),
        "with_checksum": lambda data: with_checksum(Message.decode(data)),
        "DistributionNode.publish": _published,
        "columns.decode": _columns,
        "columns.decode, VARIANT": partial(_columns, columns="lean", maps="variant"),
        "to_basic": _to_basic,
    },
    "small messages": {
        "Message.decode": _each(Message.decode),
        "validate": _each(validate),
        "to_typed": _each(lambda data: notation.to_typed(Message.decode(data))),
        "to_plain": _each(lambda data: notation.to_plain(Message.decode(data))),
        "render_text": _each(notation.render_text),
        "to_basic": _each(_to_basic),
        "columns.decode": _in_columns,
    },
    "content header": {
        "decode_content_header": decode_content_header,
        "check_content_header": lambda data: check_content_header(decode_content_header(data)),
        "to_amqp10": _to_amqp10,
    },
    "capture": {"read_capture": _capture_read},
    "file": {"read_lines and read_prefixed": _files},
    "typed": {"from_typed": lambda data: notation.from_typed(json.loads(data))},
    "expression": {
        "Selector": lambda data: filters.Selector(data.decode()),
        "SqlFilter": lambda data: filters.SqlFilter(data.decode()),
    },
    "pattern": {"matches": _filtered},
}


def _in_body(make: Make) -> Make:
    return lambda size: b"\x00\x53\x77" + make(size)


#: Every attack.
ATTACKS: tuple[Attack, ...] = (
    *(Attack(name, "value", make) for name, make in VALUES.items()),
    *(Attack(f"a body of {name}", "message", _in_body(make)) for name, make in VALUES.items()),
    *(Attack(name, "message", make) for name, make in MESSAGES.items()),
    *(Attack(name, "small messages", make) for name, make in SMALL_MESSAGES.items()),
    *(Attack(name, "content header", make) for name, make in BASIC.items()),
    *(Attack(name, "capture", make) for name, make in CAPTURES.items()),
    *(Attack(name, "file", make) for name, make in FILES.items()),
    *(Attack(name, "typed", make) for name, make in TYPED.items()),
    *(Attack(name, "expression", make) for name, make in EXPRESSIONS.items()),
    *(Attack(name, "pattern", make) for name, make in PATTERNS.items()),
)


# Measuring.


def measure(attack: Attack, entry: str, size: int = SIZE) -> Cost:
    """Measure an attack at an entry point, in a separate process."""
    data = attack.make(size)
    calls = len(data) // _SMALL if attack.kind == "small messages" else 1
    small = attack.make(max(1_000, size // 100))
    use = ENTRY_POINTS[attack.kind][entry]
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        with suppress(BaseException):
            os.close(reading)
            os.write(writing, json.dumps(_measured(use, data, small)).encode())
            status = 0
        os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if not said:
        code = os.waitstatus_to_exitcode(status)
        failed = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return Cost(attack.name, entry, len(data), float(_KILLED), 0, failed, calls)
    seconds, memory, failed = json.loads(said)
    return Cost(attack.name, entry, len(data), seconds, memory, failed, calls)


def _measured(use: Use, data: bytes, small: bytes) -> tuple[float, int, str]:
    resource.setrlimit(resource.RLIMIT_CPU, (_KILLED, _KILLED))
    _attempt(use, small)  # exclude the imports and caches of the first call
    before = _peak(reset=True)
    begin = time.process_time()
    failed = _attempt(use, data)
    seconds = time.process_time() - begin
    memory = max(0, _peak() - before)
    unit = min(processor_time(one_unit) for _ in range(5))
    return seconds / max(1.0, unit / _UNIT_SECONDS), memory, failed


def _attempt(use: Use, data: bytes) -> str:
    """Call an entry point; return an undocumented exception as text, or an empty text."""
    try:
        use(data)
    except (AmqpError, ValueError):
        return ""
    except Exception as error:  # noqa: BLE001  (whatever it is, it is a finding)
        return f"{type(error).__name__}: {error}"[:100]
    return ""


def _peak(*, reset: bool = False) -> int:
    """Return the peak memory of this process in bytes."""
    with suppress(OSError):
        if reset:  # to the current memory (Linux)
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _said(cost: Cost) -> str:
    return (
        f"{cost.per_kilobyte * 1e3:9.3f} ms/kB {cost.per_byte:8.1f} B/B  "
        f"{cost.entry:28} {cost.attack}" + (f"  ({cost.failed})" if cost.failed else "")
    )


def main() -> int:
    """Measure all attacks, and print the costs."""
    parser = argparse.ArgumentParser(
        prog="python -m fuzz.attacks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 beyond the floor")
    parser.add_argument("--only", default="", help="attacks or entry points with this in the name")
    parser.add_argument("--size", type=int, default=SIZE, help=f"bytes, about (default {SIZE:,})")
    parser.add_argument("--rows", type=int, default=20, help="how many are shown (default 20)")
    chosen = parser.parse_args()
    costs = []
    for attack in ATTACKS:
        for entry in ENTRY_POINTS[attack.kind]:
            if chosen.only in attack.name or chosen.only in entry:
                costs.append(measure(attack, entry, chosen.size))
                if costs[-1].is_too_much:
                    word = "KNOWN " if costs[-1].known else "BEYOND"
                    print(f"{word} {_said(costs[-1])}", flush=True)
    for title, key in (
        ("CPU", lambda cost: -cost.per_kilobyte),
        ("memory", lambda cost: -cost.per_byte),
    ):
        print(f"By {title}, the worst first:")
        for cost in sorted(costs, key=key)[: chosen.rows]:
            print(_said(cost))
        print()
    beyond = [cost for cost in costs if cost.is_too_much and not cost.known]
    build = "compiled" if COMPILED else "pure"
    print(
        f"{len(costs)} measurements on the {build} kernel, {len(beyond)} beyond the floor of "
        f"{SECONDS} s of CPU for 100 kB and {MEMORY} bytes for a byte"
    )
    return int(chosen.check and bool(beyond))


if __name__ == "__main__":
    sys.exit(main())
