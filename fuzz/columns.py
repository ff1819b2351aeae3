"""``python -m fuzz.columns``: compare the kernel of `amqp10msg.columns` with the Python code.

Both decode batches of randomly mutated messages to columns and encode them again. A difference is
printed, and its input stored in fuzz/findings. Rows that the kernel leaves to the Python code,
mainly errors, are compared in one batch of ten only, because both sides then run the same code.

Under sanitizers, build a copy of the tree with AMQP10MSG_SANITIZE and run this in it with libasan
preloaded and PYTHONMALLOC=malloc: the messages of a batch end where their memory ends.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import sys
import time
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa

from amqp10msg import EncodeError, Limits
from amqp10msg.columns import SCHEMA, MapsAs, _decode, _encode, decode, encode
from amqp10msg.columns._schema import plan_of
from amqp10msg.interop import corpus
from amqp10msg.wire.limits import DEFAULT_LIMITS
from fuzz.mutate import mutate

FINDINGS = Path(__file__).with_name("findings")
ALL = (*SCHEMA.names, "wire")
PROJECTIONS: tuple[tuple[str, ...], ...] = (
    ("message_id", "application_properties.tenant"),
    ("body", "error_code", "error_offset"),
    ("body_kind", "body_sections", "section_offsets", "error_code"),
    ("message_annotations.x-opt-to", "footer", "error_code", "footer.k", "footer.k2"),
    ("absolute_expiry_time_ms", "creation_time", "correlation_id_type", "durable"),
    ("body_json", "error_code"),
    ("has_properties", "body_lengths", "error_code"),
    ("body_lengths", "body_text"),
    ("body_text",),
    ("body", "body_text", "error_code", "footer"),
    # These columns with VARIANT.
    (*(name for name in SCHEMA.names if name != "section_offsets"), "body_text", "body_value"),
    ("application_properties", "application_properties.tenant", "body_value"),
    ("message_annotations", "body_value", "error_code", "message_annotations.x-opt-to"),
    (),
)


def decoded(array: Any, names: Sequence[str], limits: Limits | None = None) -> Any:
    """Decode; the map sections are VARIANT columns if the body is one."""
    maps: MapsAs = "variant" if "body_value" in names else "map"
    return decode(array, names, limits=limits, maps=maps)


def plainly(array: Any, names: Sequence[str], limits: Limits | None = None) -> Any:
    """Decode without the kernel."""
    kernel = _decode.scan_kernel
    _decode.scan_kernel = None
    try:
        return decoded(array, names, limits)
    finally:
        _decode.scan_kernel = kernel


def _bits(array: Any) -> Any:
    """Return an array as Python values, floating-point numbers as their bits."""
    if pa.types.is_floating(array.type):
        array = pa.Array.from_buffers(
            pa.int64(), len(array), array.buffers()[:2], offset=array.offset
        )
    return array.to_pylist()


def same(first: Any, second: Any) -> bool:
    """Whether two batches of one schema are equal bit for bit."""
    if first.equals(second):
        return True
    for name in first.schema.names:
        one, other = first[name], second[name]
        if one.equals(other):
            continue
        # NaN equals no NaN.
        if pa.types.is_map(one.type):
            if one.is_null().to_pylist() != other.is_null().to_pylist() or any(
                getattr(one, part).to_pylist() != getattr(other, part).to_pylist()
                for part in ("offsets", "keys")
            ):
                return False
            one, other = one.items, other.items
        if pa.types.is_floating(one.type) and _bits(one) == _bits(other):
            continue
        if not pa.types.is_struct(one.type):
            return False
        # Flattened, because values below a null row have no meaning.
        if one.is_null().to_pylist() != other.is_null().to_pylist() or any(
            _bits(field) != _bits(others)
            for field, others in zip(one.flatten(), other.flatten(), strict=True)
        ):
            return False
    return True


def exactly(octets: Sequence[bytes]) -> Any:
    """Return an array whose last message ends at the end of its memory."""
    ends = list(accumulate(map(len, octets), initial=0))
    offsets = b"".join(end.to_bytes(4, sys.byteorder) for end in ends)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(octets))]
    return pa.Array.from_buffers(pa.binary(), len(octets), buffers)


def differs(octets: Sequence[bytes], names: Sequence[str], limits: Limits | None) -> bool:
    """Whether `decode` and the Python code differ."""
    array = exactly(octets)
    found = decoded(array, names, limits)
    found.validate(full=True)
    return not same(found, plainly(array, names, limits))


def kernel_differs(octets: Sequence[bytes], names: Sequence[str], limits: Limits | None) -> bool:
    """Whether they differ in the rows that the kernel decodes itself."""
    assert _decode.scan_kernel is not None
    plan = plan_of(names, "variant" if "body_value" in names else "map")
    found, odd = _decode.scan_kernel(exactly(octets), plan, limits or DEFAULT_LIMITS)
    found.validate(full=True)
    own = pa.array(sorted(set(range(len(octets))).difference(odd)), pa.int64())
    alone = exactly([octets[i] for i in own.to_pylist()])
    return not same(found.take(own), plainly(alone, names, limits))


def encoded(batch: Any) -> Any:
    """Return the messages of columns, or the error of an invalid row."""
    try:
        made = encode(batch)
    except EncodeError as error:
        return str(error)
    made.validate(full=True)
    return made.to_pylist()


def encoding_differs(octets: Sequence[bytes]) -> bool:
    """Whether `encode` and its Python code differ for the columns of messages."""
    batch = decode(exactly(octets), (*SCHEMA.names, "wire"))
    found = encoded(batch)
    kernel = _encode.kernel
    _encode.kernel = None
    try:
        return bool(found != encoded(batch))
    finally:
        _encode.kernel = kernel


def seeds() -> list[bytes]:
    """Return the messages of the corpus and the recordings, and some additional ones."""
    path = Path(__file__).parents[1] / "tests" / "vectors" / "recorded.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        found = [bytes.fromhex(json.loads(line)["raw"]) for line in lines]
    found += [case.data for case in corpus.load() if case.kind == "message"]
    # Arrays of zero-width values: null, true, zeros, empty lists.
    for code in (0x40, 0x41, 0x43, 0x44, 0x45):
        array = bytes((0xE0, 2, 3, code))
        found.append(b"\0\x53\x72\xc1\x08\2\xa3\1k" + array + b"\0\x53\x77" + array)
        found.append(b"\0\x53\x76\xc0\x09\2" + array + array)
    return found


def main() -> int:
    """Run the given number of batches; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.columns", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    if _decode.scan_kernel is None:
        parser.error("the kernel is not compiled: python setup.py build_ext --inplace")
    draw = random.Random(chosen.seed)
    known = seeds()
    begin = time.perf_counter()
    done = differ = 0
    while done < chosen.inputs:
        # Some valid messages among the damaged ones, so that columns have values between nulls.
        octets = [
            draw.choice(known) if draw.random() < 0.3 else mutate(known, draw)
            for _ in range(draw.choice((1, 3, 40, 400)))
        ]
        names = ALL if draw.random() < 0.7 else draw.choice(PROJECTIONS)
        limits = (
            None
            if draw.random() < 0.9
            else Limits(items=draw.randrange(40), zero_width=draw.randrange(10))
        )
        compare = differs if draw.random() < 0.1 or not names else kernel_differs
        if compare(octets, names, limits) or encoding_differs(octets):
            differ += 1
            joined = json.dumps([octet.hex() for octet in octets])
            FINDINGS.mkdir(exist_ok=True)
            name = f"columns-{hashlib.sha256(joined.encode()).hexdigest()[:16]}"
            (FINDINGS / name).write_text(joined, encoding="utf-8")
            print(f"FINDING {name}: {names}, {limits}", file=sys.stderr, flush=True)
        done += len(octets)
    seconds = time.perf_counter() - begin
    print(f"{done} inputs, {differ} differences, {seconds:.0f} s")
    return 1 if differ else 0


if __name__ == "__main__":
    raise SystemExit(main())
