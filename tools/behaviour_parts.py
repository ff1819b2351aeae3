"""The parts of `behaviour`: the results that are recorded for each input.

All imports of the package are below, so a moved module changes only these lines.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import struct
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path[:1]:
    sys.path.insert(0, str(ROOT))  # this tree, not one that is installed

from tests.pure_build import follow_the_environment  # noqa: E402

follow_the_environment()

# All imported functions of the package.
import amqp10msg  # noqa: E402
from amqp10msg import (  # noqa: E402
    COMPILED,
    DecodeError,
    Header,
    Limits,
    Message,
    columns,
    decode_value,
    decode_values,
    delivery,
    encode_value,
    files,
    notation,
    scan,
    skip_value,
    validate,
)
from amqp10msg.basic import (  # noqa: E402
    BasicMessage,
    check_content_header,
    decode_content_header,
    decode_properties,
    decode_table,
    encode_content_header,
    encode_table,
)
from amqp10msg.delivery import filters  # noqa: E402
from amqp10msg.jobs import Job, output_of, quarantined  # noqa: E402
from amqp10msg.jobs import run as run_job  # noqa: E402
from amqp10msg.jobs.translating import Translator  # noqa: E402
from amqp10msg.translate import (  # noqa: E402
    PROFILES,
    Circumstances,
    Death,
    as_published,
    explain,
    to_amqp10,
    to_basic,
)
from amqp10msg.validation import PROFILES as RULE_SETS  # noqa: E402

from behaviour_inputs import Input, Inputs, damaged  # noqa: E402  # isort: skip

__all__ = ["BUILD", "CHUNK", "PARTS", "Found", "Part", "digest"]

#: Inputs per line of a record, which a part gets together.
CHUNK = 100
BUILD = "compiled" if COMPILED else "pure"
if not Path(amqp10msg.__file__).is_relative_to(ROOT):
    raise ImportError(f"{amqp10msg.__file__} is not of this tree, {ROOT}")


def digest(text: str | bytes) -> bytes:
    """Return an eight-byte hash of a text."""
    octets = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return hashlib.blake2b(octets, digest_size=8).digest()


@dataclass
class Found:
    """The results of a part for some inputs.

    Attributes:
        texts: one result for each input.
        whole: results for all inputs together, by name.
    """

    texts: list[str]
    whole: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """One part of the record.

    Attributes:
        run: returns the results for some inputs; takes the inputs, and a number for each that
            selects additional steps.
        groups: drawn groups that it uses, with N to use one in N hundreds; the empty name is for
            fixed inputs, all of which are used by default.
        kinds: kinds of inputs that it uses; empty if it creates its own.
        texts: for a part that creates its own inputs: yields their names and results.
        alone: yields additional details of one input, for `show`.
    """

    run: Callable[[Sequence[Input], Sequence[int]], Found] | None = None
    groups: Mapping[str, int] = field(default_factory=dict)
    kinds: frozenset[str] = frozenset()
    texts: Callable[[Inputs], Iterator[tuple[str, str]]] | None = None
    alone: Callable[[Input], Iterator[str]] | None = None


# Values as exact text with their types, independent of any `repr`.


_Teller: TypeAlias = Callable[[Any, Callable[[str], None]], None]


def told(value: Any) -> str:
    """Return any value that the package returns as text, with all types and bits."""
    out: list[str] = []
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)  # only for this text: the package keeps the usual limit
    try:
        _tell(value, out.append)
    finally:
        sys.setrecursionlimit(limit)
    return "".join(out)


def _tell(value: Any, out: Callable[[str], None]) -> None:
    teller = _TELLERS.get(type(value))
    if teller is None:
        teller = _TELLERS[type(value)] = _teller(type(value))
    teller(value, out)


def _tell_items(value: Iterable[Any], out: Callable[[str], None]) -> None:
    out("[")
    for item in value:
        _tell(item, out)
        out(",")
    out("]")


def _tell_pairs(value: Iterable[tuple[Any, Any]], out: Callable[[str], None]) -> None:
    out("{")
    for key, item in value:
        _tell(key, out)
        out(":")
        _tell(item, out)
        out(",")
    out("}")


def _teller(cls: type) -> _Teller:
    """Return the function that formats values of a class."""
    name = cls.__name__
    # attrs' list includes private and inherited fields.
    attributes = tuple(one.name for one in getattr(cls, "__attrs_attrs__", ()))
    if issubclass(cls, BaseException):
        return lambda value, out: out(failed(value))
    if name == "Message":
        return _tell_message
    if name == "Array":
        attributes = ("code", "descriptors", "values")
    elif name == "Described":
        attributes = ("descriptor", "value")
    elif hasattr(cls, "bits"):
        return lambda value, out: out(f"{name}:{value.bits:x}")
    elif issubclass(cls, str):
        return lambda value, out: out(name + json.dumps(str(value)))
    elif issubclass(cls, int):
        return lambda value, out: out(f"{name}:{int(value)}{_own_values(value)}")
    elif hasattr(cls, "entries"):
        return _named(name, lambda value, out: _tell_items(value.entries, out))
    elif hasattr(cls, "pairs"):
        return _named(name, lambda value, out: _tell_pairs(value.pairs, out))
    elif issubclass(cls, Mapping):
        return _named(name, lambda value, out: _tell_pairs(value.items(), out))
    elif not hasattr(cls, "__attrs_attrs__") and hasattr(cls, "__iter__"):
        return _named(name, _tell_items)
    elif not hasattr(cls, "__attrs_attrs__"):
        raise TypeError(f"what is a {name}?")

    return _named(
        name,
        lambda value, out: _tell_pairs(((one, getattr(value, one)) for one in attributes), out),
    )


def _own_values(value: Any) -> str:
    """Return additional attributes of an int, such as the byte of a non-canonical true."""
    return "".join(f" {one!r}" for one in getattr(value, "__dict__", {}).values())


def _named(name: str, tell: _Teller) -> _Teller:
    """Return a formatter that puts a name before the value."""

    def named(value: Any, out: Callable[[str], None]) -> None:
        out(name)
        tell(value, out)

    return named


_SECTIONS = (
    *("header", "delivery_annotations", "message_annotations", "properties"),
    *("application_properties", "body", "footer"),
)


def _tell_message(value: Any, out: Callable[[str], None]) -> None:
    out(f"Message {value.message_format}")
    for name in _SECTIONS:
        section = getattr(value, name)
        if section is not None:
            out(f" {name}=")
            _tell(section, out)


_TELLERS: dict[type, _Teller] = {
    type(None): lambda _value, out: out("null"),
    bool: lambda value, out: out("true" if value else "false"),
    int: lambda value, out: out(str(value) if value.bit_length() < 1024 else hex(value)),
    float: lambda value, out: out("d" + struct.pack(">d", value).hex()),
    bytes: lambda value, out: out("x" + value.hex()),
    bytearray: lambda value, out: out("xa" + value.hex()),
    str: lambda value, out: out(json.dumps(value)),
    uuid.UUID: lambda value, out: out("u" + value.hex),
    list: _tell_items,
    tuple: _named("t", _tell_items),
    dict: lambda value, out: _tell_pairs(value.items(), out),
    Decimal: lambda value, out: out(f"D{value}"),
    datetime: lambda value, out: out(value.isoformat()),
}


def failed(error: BaseException) -> str:
    """Return all fields of an error as text."""
    said = [type(error).__name__]
    if isinstance(error, RecursionError):
        return said[0]  # without the place where the stack ran out
    for name in ("rule", "condition", "offset", "path", "reason", "position", "delivered"):
        found = getattr(error, name, None)
        if found is not None:
            said.append(f"{name}={found!r}")
    violations = getattr(error, "violations", None)
    if violations is not None:
        said.append(_violations(violations))
    return " ".join([*said, str(error)])


def _tried(make: Callable[[], str]) -> str:
    """Return a result as text, or the exception raised for it, of any class."""
    try:
        return make()
    except Exception as error:  # noqa: BLE001  (whatever is raised is the behaviour)
        return raised(error)


def raised(error: Exception) -> str:
    """Return all fields of an exception of the package as text.

    Raises:
        Exception: the exception itself, if this tool caused it or the package lacks a function.
    """
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    is_own = frame is not None and frame.tb_frame.f_code.co_filename == __file__
    if is_own and isinstance(error, (TypeError, AttributeError, LookupError, NameError)):
        raise error
    return failed(error)


def _violations(found: Iterable[Any]) -> str:
    return "; ".join(
        f"{one.rule} {one.clause} {one.severity} {one.offset} {one.path} {one.text}"
        for one in found
    )


def _each(one: Callable[[Input, int], str]) -> Callable[[Sequence[Input], Sequence[int]], Found]:
    """Return the `run` of a part from a function for one input."""

    def run(given: Sequence[Input], numbers: Sequence[int]) -> Found:
        return Found([one(each, number) for each, number in zip(given, numbers, strict=True)])

    return run


def _lenient(data: bytes) -> Any:
    """Decode a message leniently; return None if that fails."""
    try:
        return Message.decode(data)
    except DecodeError:
        pass
    try:
        return Message.decode(data, strict=False)
    except DecodeError:
        return None


# Messages and values.

_TIGHT = Limits(depth=3, items=12, zero_width=2, size=200)


def _wire(given: Input, number: int) -> str:
    data = given.data

    def strict() -> str:
        message = Message.decode(data)
        anew = Message(message.body, **{n: getattr(message, n) for n in _SECTIONS if n != "body"})
        changed = message.evolve(header=Header(priority=5), footer=None)
        return (
            f"{told(message)}\n{message.encode() == data} {anew.encode().hex()}\n"
            f"{changed.encode().hex()} {message.bare.hex()}"
        )

    def scanned() -> str:
        found = scan(data)
        parts = " ".join(f"{part.name}@{part.offset},{part.content},{part.end}" for part in found)
        return f"{parts}\n{found.bare.hex()}\n{found.replace(header=Header(ttl=5)).hex()}"

    def lenient() -> str:
        message = Message.decode(data, strict=False)
        made = f"{told(message.sections())}\n{_violations(message.violations)}"
        return f"{made}\n{message.encode() == data} {message.evolve(header=None).encode().hex()}"

    said = [_tried(strict), _tried(scanned), _tried(lenient)]
    if number % 5 == 0:
        said.append(_tried(lambda: told(Message.decode(data, limits=_TIGHT))))
        said.append(_tried(lambda: told(Message.decode(data, strict=False, limits=_TIGHT))))
        said.append(_tried(lambda: told([one.end for one in scan(data, limits=_TIGHT)])))
    return "\n".join(said)


def _value(given: Input, _number: int) -> str:
    data = given.data

    def one() -> str:
        value = decode_value(data)
        return f"{told(value)} {encode_value(value).hex()}"

    def several() -> str:
        values: list[Any] = []
        try:
            values.extend(decode_values(data))
        except DecodeError as error:
            values.append(error)
        return "\n".join(map(told, values))

    return "\n".join(
        [
            _tried(one),
            _tried(several),
            _tried(lambda: str(skip_value(data))),
            _tried(lambda: told(decode_value(data, limits=_TIGHT))),
        ]
    )


def _validated(given: Input, number: int) -> str:
    data = given.data
    said = [_tried(partial(_judged, data, profile)) for profile in RULE_SETS]
    if number % 5 == 0:
        said.append(_tried(lambda: _violations(validate(data, limits=_TIGHT))))
        message = _lenient(data)
        if message is not None:
            other = message.evolve(message_format=0x80013700)
            said += [_tried(partial(_judged, one, "oasis")) for one in (message, other)]
    return "\n".join(said)


def _judged(data: Any, profile: Any) -> str:
    return _violations(validate(data, profile))


# Notations.

_JUNK: tuple[Any, ...] = (
    None,
    True,
    5,
    -1,
    2**70,
    0.5,
    "",
    "x",
    "zz",
    [],
    {},
    ["uint", 5],
    ["uint", -1],
    [[]],
)


def _spoilt(draw: random.Random, text: str) -> Any:
    """Return a JSON document with one value replaced."""
    tree = json.loads(text)
    inside, step = [tree], 0
    node: Any = inside
    key: Any = step
    while isinstance(node[key], (list, dict)) and node[key] and draw.random() < 0.85:
        node = node[key]
        keys = list(node) if isinstance(node, dict) else range(len(node))
        key = draw.choice(keys)
    way = draw.randrange(4)
    if way == 0 and isinstance(node, list) and len(node) > 1:
        del node[key]
    elif way == 1 and isinstance(node, list):
        node.insert(key, node[key])
    elif way == 2 and isinstance(node, dict):
        node[draw.choice(("unknown", "header", "@type", "body", "sections"))] = node.pop(key)
    else:
        node[key] = draw.choice(_JUNK)
    return inside[0]


def _back(read: Callable[[Any], Any], document: Any) -> str:
    """Parse a notation, and return the encoded result."""

    def make() -> str:
        value = read(document)
        octets = value.encode() if isinstance(value, Message) else encode_value(value)
        return f"{type(value).__name__} {getattr(value, 'message_format', '')} {octets.hex()}"

    return _tried(make)


def _subjects(given: Input) -> Iterator[Any]:
    """Yield the decoded message and the decoded value, as far as the bytes are valid."""
    message = _lenient(given.data)
    if message is not None:
        yield message
    with suppress(DecodeError):
        yield decode_value(given.data)


def _json(
    write: Callable[[Any], Any],
    read: Callable[[Any], Any],
    of_value: Callable[[Any], Any],
    given: Input,
    number: int,
) -> str:
    said = []
    for subject in _subjects(given):
        reads = read if isinstance(subject, Message) else of_value
        try:
            text = json.dumps(write(subject), ensure_ascii=False)
        except Exception as error:  # noqa: BLE001  (as `_tried`)
            said.append(raised(error))
            continue
        said += [text, _back(reads, json.loads(text))]
        if number % 3 == 0:
            said.append(_back(reads, _spoilt(random.Random(number), text)))
    return "\n".join(said)


def _cbor(given: Input, number: int) -> str:
    said = []
    for subject in _subjects(given):
        try:
            octets = notation.to_cbor(subject)
        except Exception as error:  # noqa: BLE001  (as `_tried`)
            said.append(raised(error))
            continue
        said += [octets.hex(), _back(notation.from_cbor, octets)]
        if number % 3 == 0:
            said.append(_back(notation.from_cbor, damaged(random.Random(number), octets)))
    return "\n".join(said)


def _text(given: Input, number: int) -> str:
    data = given.data

    def tree() -> Any:
        return notation.parse_tree(data, violations=validate(data))

    def nodes() -> str:
        found = tree()
        return told([found.nodes, list(found.violations)])

    said = [_tried(lambda: notation.render_text(data)), _tried(nodes)]
    said.append(_tried(lambda: notation.render_text(tree(), width=80, color=True)))
    if number % 10 == 0:
        said.append(_tried(lambda: notation.render_html(data)))
        said.append(_tried(lambda: notation.render_svg(tree())))
        said.append(_tried(lambda: notation.render_text(notation.parse_tree(data, limit=5))))
    return "\n".join(said)


# Translation, one by one.

_DEATHS = (
    Death("q1", "expired", 1_700_000_000_000, "amq.direct", ("a", "b"), 2, ttl=5000),
    Death("q2", "rejected", 1_600_000_000_000, routing_keys=("q2",)),
)
_WAYS: tuple[Circumstances, ...] = (
    Circumstances(),
    Circumstances(None, stream_offset=515),
    Circumstances("other", queue_type="quorum", given_back=("nack", "closed", "reject")),
    Circumstances(deaths=_DEATHS),
)


def _losses(losses: Iterable[Any]) -> str:
    return "".join(
        f"\n  {one.path} {one.action} {told(one.before)} -> {told(one.after)} {one.reason} "
        f"{one.recoverable}"
        for one in losses
    )


def _translated(translate: Callable[..., Any], given: Any, profile: str, **how: Any) -> str:
    def make() -> str:
        made = translate(given, profile, **how)
        return f"{_bytes_of(made.message)}{_losses(made.losses)}"

    return f"{profile}: {_tried(make)}"


def _bytes_of(message: Any) -> str:
    if isinstance(message, Message):
        return f"{message.message_format} {message.encode().hex()}"
    header = encode_content_header(message.properties, len(message.body))
    return (
        f"{header.hex()} {bytes(message.body).hex()} {message.exchange!r} "
        f"{message.routing_key!r} {message.redelivered}"
    )


def _all_ways(translate: Callable[..., Any], given: Any, number: int) -> list[str]:
    said = [_translated(translate, given, profile) for profile in PROFILES]
    way = _WAYS[number % len(_WAYS)]
    if way == Circumstances():
        said += [_translated(translate, given, profile, strict=True) for profile in PROFILES]
    else:
        said += [_translated(translate, given, profile, circumstances=way) for profile in PROFILES]
    if number % 5 == 0:
        for profile in PROFILES:
            said.append(_tried(partial(explain, given, profile)))  # type: ignore[arg-type]
    return said


def _to_basic(given: Input, number: int) -> str:
    message = _lenient(given.data)
    if message is None:
        return ""
    said = _all_ways(to_basic, message, number)

    def there_and_back() -> str:
        basic = to_basic(message).message
        return told(basic) + _translated(to_amqp10, basic, "lossless")

    return "\n".join([*said, _tried(there_and_back)])


def _to_amqp10(given: Input, number: int) -> str:
    try:
        header = decode_content_header(given.data)
    except DecodeError as error:
        return failed(error)
    place = (given.exchange, given.routing_key, given.redelivered)
    said = []
    for way in (place, ("", "", False)):
        basic = BasicMessage(header.properties, given.payload, *way)
        said += _all_ways(to_amqp10, basic, number + (way is not place))
    delivered = BasicMessage(header.properties, given.payload, *place)
    for stream in (False, True):
        said.append(_tried(lambda at=stream: _bytes_of(as_published(delivered, stream=at))))  # type: ignore[misc]

    def there_and_back() -> str:
        message = to_amqp10(delivered).message
        return told(message) + _translated(to_basic, message, "lossless")

    return "\n".join([*said, _tried(there_and_back)])


# Translation, batch by batch.


def _rows(arrays: Mapping[str, Any]) -> list[str]:
    """Return each row as text."""
    lists = [array.to_pylist() for array in arrays.values()]
    return [repr(row) for row in zip(*lists, strict=True)]


_BASIC = pa.schema(
    [
        ("content_header", pa.binary()),
        ("payload", pa.binary()),
        ("exchange", pa.string()),
        ("routing_key", pa.string()),
        ("redelivered", pa.bool_()),
    ]
)


def _batches(to: str, given: Sequence[Input], numbers: Sequence[int]) -> Found:
    """Translate a batch in every second profile, and in some of them translate it back."""
    if to == "0-9-1":
        read: dict[str, Any] = {"wire": pa.array([one.data for one in given], pa.binary())}
    else:
        rows = [
            {
                "content_header": one.data,
                "payload": one.payload,
                "exchange": _utf8(one.exchange),
                "routing_key": _utf8(one.routing_key),
                "redelivered": one.redelivered,
            }
            for one in given
        ]
        read = dict(zip(_BASIC.names, pa.Table.from_pylist(rows, _BASIC).columns, strict=True))
        read = {name: column.combine_chunks() for name, column in read.items()}
    chunk = numbers[0] // CHUNK
    texts = [[""] for _ in given]
    profiles = list(PROFILES)
    for i, profile in enumerate(profiles):
        # The lossless profile always, and every second one of the others in turn.
        if i and i % 2 != chunk % 2:
            continue
        translator = Translator(to, profile)
        made = translator.run(read)
        _add(texts, f"{profile}: ", _rows(made))
        if chunk % len(profiles) == i:
            way = _WAYS[chunk // len(profiles) % len(_WAYS)]
            how: dict[str, Any] = {"strict": True} if way == _WAYS[0] else {"circumstances": way}
            _add(texts, f"{profile} {list(how)}: ", _rows(Translator(to, profile, **how).run(read)))
        if i == 0 or (chunk + 2) % len(profiles) == i:
            names = _BASIC.names if to == "0-9-1" else ["wire"]
            back = Translator("1.0" if to == "0-9-1" else "0-9-1", profile)
            again = back.run({name: made[name] for name in names})
            _add(texts, f"{profile} back: ", _rows(again))
    return Found(["\n".join(one) for one in texts])


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _add(texts: list[list[str]], what: str, rows: Iterable[str]) -> None:
    for text, row in zip(texts, rows, strict=True):
        text.append(what + row)


# Columns.

_PICKED = (
    *("message_id", "application_properties.tenant", "message_annotations.x-opt-to"),
    *("application_properties.n bigint as n", "application_properties.a string as a"),
    *("application_properties.b double as b", "error_code", "error_offset", "body_kind"),
)
_OTHERS = ("body_text", "section_offsets", "body_sections", "footer", "error", "creation_time_ms")
_PROJECTIONS: dict[str, dict[str, Any]] = {
    "all": {"columns": [*columns.SCHEMA.names, "wire"]},
    "all variant": {"columns": [*columns.SCHEMA.names, "body_value"], "maps": "variant"},
    "lean": {"columns": "lean"},
    "lean variant": {"columns": "lean", "maps": "variant"},
    "picked": {"columns": _PICKED},
    "others": {"columns": _OTHERS, "limits": _TIGHT},
    "rabbitmq-4": {"columns": ["to", "error_code", "error_clause"], "validate": "rabbitmq-4"},
    "azure": {"columns": ["body", "error_code", "error_offset"], "validate": "azure"},
}


def _columns(given: Sequence[Input], numbers: Sequence[int]) -> Found:
    """Decode a batch with several projections, and encode what can be encoded.

    The texts contain the rows of the first projection and of the validating ones; the others are
    in `whole` as bytes of Arrow's IPC format.
    """
    array = pa.array([one.data for one in given], pa.binary())
    texts = [[""] for _ in given]
    whole: dict[str, bytes] = {}
    for name, how in _PROJECTIONS.items():
        try:
            batch = columns.decode(array, **how)
        except Exception as error:  # noqa: BLE001  (as `_tried`)
            whole[name] = digest(raised(error))
            continue
        whole[name] = digest(_ipc(batch))
        if name in {"all", "others", "rabbitmq-4", "azure"}:
            _add(texts, f"{name}: ", _rows(dict(zip(batch.schema.names, batch, strict=True))))
        # This projection lacks body columns, so most of its rows cannot be encoded.
        if name == "all" or (name == "lean" and numbers[0] // CHUNK % 10 == 0):
            without = batch.select([one for one in batch.schema.names if one != "wire"])
            _add(texts, f"{name} encoded: ", _encoded(without))
    return Found(["\n".join(one) for one in texts], whole)


def _ipc(batch: Any) -> bytes:
    """Return a batch as bytes of Arrow's IPC format, without the schema and with zeros below nulls.

    The bytes below nulls have no meaning, and differ between builds.
    """
    rows = pa.array(range(batch.num_rows), pa.int64())
    arrays = []
    for column in batch.columns:
        if pa.types.is_struct(column.type):
            arrays += [column.is_null(), *column.flatten()]
        else:
            arrays.append(column)
    whole = [array.take(rows) for array in arrays]
    names = [str(number) for number in range(len(whole))]
    made: bytes = pa.RecordBatch.from_arrays(whole, names).serialize().to_pybytes()
    return made


def _projected(given: Input) -> Iterator[str]:
    """Yield the result of each projection for one message, as values and as bytes."""
    for name, how in _PROJECTIONS.items():
        batch = columns.decode(pa.array([given.data], pa.binary()), **how)
        yield f"{name}: {batch.to_pylist()}\n  {_ipc(batch).hex()}"


def _encoded(batch: Any) -> list[str]:
    try:
        return [repr(octets) for octets in columns.encode(batch).to_pylist()]
    except Exception:  # noqa: BLE001  (as `_tried`; each row says its own)
        rows = range(batch.num_rows)
    return [_tried(lambda i=i: repr(columns.encode(batch.slice(i, 1)).to_pylist())) for i in rows]  # type: ignore[misc]


# A message of the value null.
_NULL = b"\0\x53\x77\x40"


def _single(given: Sequence[Input], _numbers: Sequence[int]) -> Found:
    """Decode single values to columns, and envelopes with several messages."""
    array = pa.array([one.data for one in given], pa.binary())
    texts = [[""] for _ in given]
    for plain in ("error", "encoded", "text"):
        made = columns.decode_values(array, plain)
        _add(texts, f"{plain}: ", map(repr, made.to_pylist()))
    for text, one in zip(texts, given, strict=True):
        envelope = b"".join(
            b"\0\x53\x75\xb0" + struct.pack(">I", len(data)) + data for data in (one.data, _NULL)
        )
        for octets in (one.data, envelope):
            batch = columns.explode_batches(pa.array([octets, None], pa.binary()))
            text.append(repr(batch.to_pylist()))
    return Found(["\n".join(one) for one in texts])


def _schemas(_inputs: Inputs) -> Iterator[tuple[str, str]]:
    """Yield the schema of each projection, with its comments."""
    for name, how in _PROJECTIONS.items():
        made = columns.decode(pa.array([b""], pa.binary()), **how)
        yield name, made.schema.to_string(show_schema_metadata=True, truncate_metadata=False)
    yield "translated to basic", str(Translator("0-9-1", "lossless").schema)
    yield "translated to amqp10", str(Translator("1.0", "lossless").schema)


# Filters, delivery states and termini.

_EXPRESSIONS = (
    *("n = 5", "tenant = 'ok'", "a IS NULL", "b IS NOT NULL AND n > 0", "k LIKE 'a%' OR a = 1"),
    *("n BETWEEN -5 AND 5", "region IN ('a', 'ok', 'x')", "NOT (priority > 4)", "n * 2 + 1 > a"),
    *(
        "JMSPriority > 3",
        "JMSMessageID = 'm-1'",
        "JMSDeliveryMode = 'PERSISTENT'",
        "TRUE",
        "n =",
        "",
    ),
)
_SQL = (
    *("properties.subject = 'ok'", "header.priority >= 4", "a.tenant LIKE '%e%'", "n % 2 = 0"),
    *("properties.message_id IS NOT NULL", "application_properties.n IN (1, 2, 7)", "p.to = 'x'"),
    *("message_annotations.x-opt-to = 'a'", "h.durable", "UTC() > p.creation_time", "1 = = 2"),
    *("NOT EXISTS(tenant)", "m.\"x-opt-to\" <> 'b'", "a || b = 'xx'", "n / 0 = 1", "(n = 1"),
)
_TOPICS = ("#", "a.*", "*.b.#", "orders", "hello", "", "a.#.b", "x")
_TERMS: tuple[tuple[str, Any], ...] = (
    ("amqp:properties-filter", {"subject": "ok", "message-id": "m-1"}),
    ("amqp:properties-filter", {"subject": "&p:o", "to": "&s:k", "nothing": 5}),
    ("amqp:application-properties-filter", {"tenant": "ok", "n": 5}),
    ("amqp:application-properties-filter", {"a": "&p:h"}),
    ("apache.org:legacy-amqp-headers-binding:map", {"x-match": "any", "tenant": "ok", "n": 5}),
    ("apache.org:legacy-amqp-headers-binding:map", {"a": None, "b": True}),
    ("rabbitmq:stream-filter", "invoices"),
    ("rabbitmq:stream-offset-spec", "first"),
    ("rabbitmq:stream-match-unfiltered", True),
    ("com.microsoft:session-filter", "g-1"),
    ("apache.org:no-local-filter:list", []),
    ("apache.org:xquery-filter:string", "//a"),
    ("x:unknown", 5),
)


@cache
def _filters() -> list[tuple[str, Any]]:
    """Return the filters by name, with the exception instead of an invalid one."""
    found: list[tuple[str, Any]] = []
    for language, texts in (
        ("selector", _EXPRESSIONS),
        ("sql", _SQL),
        ("oasis", _SQL),
        ("topic", _TOPICS),
        ("direct", _TOPICS),
    ):
        made: Any
        for text in texts:
            try:
                made = filters.LANGUAGES[language](text)
            except Exception as error:  # noqa: BLE001  (as `_tried`)
                made = error
            found.append((f"{language} {text!r}", made))
    for name, value in _TERMS:
        described = amqp10msg.Described(amqp10msg.Symbol(name), _symbolic(value))
        try:
            made = filters.parse(described)
        except Exception as error:  # noqa: BLE001  (as `_tried`)
            made = error
        found.append((f"{name} {value!r}", made))
    return found


def _symbolic(value: Any) -> Any:
    if isinstance(value, dict):
        return {amqp10msg.Symbol(key): item for key, item in value.items()}
    return value


_NOW = 1_700_000_000_000


def _filtered(one: Any, message: Any) -> str:
    def make() -> str:
        passes = one.matches(message, now=_NOW, local=False)
        reasons = "; ".join(map(str, one.explain(message, now=_NOW, local=False)))
        return f"{passes} {reasons}"

    return _tried(make)


def _matched(given: Input, _number: int) -> str:
    message = _lenient(given.data)
    if message is None:
        return ""
    return "\n".join(
        f"{name}: {_filtered(one, message)}"
        for name, one in _filters()
        if not isinstance(one, Exception)
    )


def _made(_inputs: Inputs) -> Iterator[tuple[str, str]]:
    """Yield the encoded filters, or the exceptions of invalid ones."""
    for name, one in _filters():
        if isinstance(one, Exception):
            yield name, failed(one)
        else:
            yield name, _tried(lambda made=one: encode_value(made.to_described()).hex())  # type: ignore[misc]


def _filter(given: Input, _number: int) -> str:
    """Decode a filter in both dialects, and evaluate it on its message."""
    said = []
    for dialect in ("rabbitmq", "oasis"):
        for strict in (True, False):
            try:
                one = filters.parse(given.data, strict=strict, dialect=dialect)
            except Exception as error:  # noqa: BLE001  (as `_tried`)
                said.append(raised(error))
                continue
            message = _lenient(given.message)
            shown = _tried(lambda made=one: encode_value(_described(made)).hex())  # type: ignore[misc]
            said.append(f"{shown} {message and _filtered(one, message)}")
    return "\n".join(said)


def _described(one: Any) -> Any:
    return one.to_map() if hasattr(one, "to_map") else one.to_described()


def _composite(given: Input, _number: int) -> str:
    data = given.data

    def read(strict: bool) -> str:
        value = delivery.decode(data, strict=strict)
        return f"{told(value)} {delivery.encode(value).hex()}"

    def checked(check: Callable[..., Any], **how: Any) -> str:
        return _tried(lambda: _violations(check(data, **how)))

    said = [_tried(lambda: read(True)), _tried(lambda: read(False))]
    for role in (None, "sender", "receiver"):
        said.append(checked(delivery.check_source, role=role, modes=("copy",)))
        said.append(checked(delivery.check_target, role=role))
    said.append(checked(delivery.check_declare))
    return "\n".join(said)


# AMQP 0-9-1.

_DIALECTS: tuple[Any, ...] = ("rabbitmq", "spec", "qpid")


def _basic(given: Input, _number: int) -> str:
    data = given.data

    def read(dialect: Any) -> str:
        header = decode_content_header(data, dialect=dialect)
        findings = "; ".join(
            f"{one.rule} {one.severity} {one.path} {one.text}"
            for one in check_content_header(header)
        )
        written = [
            _tried(lambda as_=other: encode_content_header(header, dialect=as_).hex())  # type: ignore[misc]
            for other in _DIALECTS
        ]
        return "\n".join([told(header), findings, *written])

    said = [_tried(partial(read, dialect)) for dialect in _DIALECTS]
    said.append(_tried(lambda: told(decode_properties(data[12:], limits=_TIGHT))))
    return "\n".join(said)


def _table(given: Input, _number: int) -> str:
    def read(dialect: Any) -> str:
        table = decode_table(given.data, dialect=dialect)
        return f"{told(table)} {encode_table(table, dialect=dialect).hex()}"

    return "\n".join(_tried(partial(read, dialect)) for dialect in _DIALECTS)


# Files and jobs create their own inputs from drawn messages.


def _messages(inputs: Inputs, count: int) -> list[Input]:
    return [inputs["messages", number] for number in range(count)]


def _prefixed(octets: Iterable[bytes]) -> bytes:
    return b"".join(struct.pack(">I", len(one)) + one for one in octets)


def _basic_rows(inputs: Inputs, count: int) -> Any:
    rows = [inputs["basics", number] for number in range(count)]
    return pa.Table.from_pylist(
        [
            {
                "content_header": one.data,
                "payload": one.payload,
                "exchange": one.exchange,
                "routing_key": one.routing_key,
                "redelivered": one.redelivered,
                "note": f"row {number}",
            }
            for number, one in enumerate(rows)
        ],
        pa.schema([*_BASIC, ("note", pa.string())]),
    )


def _jobs(inputs: Inputs) -> Iterator[tuple[str, str]]:
    """Yield each output row and quarantined row of the jobs, and their counts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        messages = folder / "messages.prefixed"
        messages.write_bytes(_prefixed(one.data for one in _messages(inputs, 2_000)))
        basics = folder / "basics.parquet"
        pq.write_table(_basic_rows(inputs, 2_000), basics)
        jobs = {
            "decode": (messages, Job("decode")),
            "decode lean": (messages, Job("decode", columns=("lean",), profile="azure")),
            "profile": (messages, Job("profile")),
            **{f"validate {p}": (messages, Job("validate", profile=p)) for p in RULE_SETS},
        }
        for profile in PROFILES:
            jobs[f"to basic, {profile}"] = (messages, Job("translate", to="0-9-1", profile=profile))
            jobs[f"to amqp10, {profile}"] = (
                basics,
                Job("translate", profile=profile, circumstances=_WAYS[1]),
            )
        for title, (source, job) in jobs.items():
            made = folder / title
            stats = run_job(source, made, job, workers=1)
            counts = json.dumps(stats.as_json(), ensure_ascii=False)
            yield f"{title}: counts", counts.replace(name, "FOLDER")
            good = pq.ParquetDataset(output_of(made)[0]).read().to_pylist()
            for kind, rows in (("row", good), ("quarantine", quarantined(made))):
                for number, row in enumerate(rows):
                    yield f"{title}: {kind} {number}", repr(row).replace(name, "FOLDER")


def _written(inputs: Inputs, folder: Path) -> Iterator[Path]:
    """Write a file in each format."""
    wires = [one.data for one in _messages(inputs, 300)]

    def put(name: str, octets: bytes) -> Path:
        path = folder / name
        path.write_bytes(octets)
        return path

    yield put("a.prefixed", _prefixed(wires))
    yield put("one.raw", wires[0])
    lines: list[dict[str, Any]] = []
    for number, wire in enumerate(wires):
        key = ("raw", "hex", "wire")[number % 3]
        lines.append({key: wire.hex(), "n": number})
    yield put("b.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode())
    heads = (
        b"\x58" + bytes([len(w)]) if len(w) < 256 else b"\x59" + len(w).to_bytes(2, "big")
        for w in wires
    )
    sequence = b"".join(head + wire for head, wire in zip(heads, wires, strict=True))
    yield put("c.cborseq", sequence)
    yield put("capture.pcap", (ROOT / "tests" / "vectors" / "capture.pcap").read_bytes())
    path = folder / "d.parquet"
    pq.write_table(pa.table({"wire": pa.array(wires, pa.binary()), "n": range(len(wires))}), path)
    yield path
    pq.write_table(_basic_rows(inputs, 300), folder / "e.parquet")
    yield folder / "e.parquet"
    octets = _avro(inputs)
    if octets is not None:
        yield put("f.avro", octets)


def _avro(inputs: Inputs) -> bytes | None:
    """Return a file of Event Hubs Capture, or None if fastavro is not installed."""
    try:
        import fastavro  # noqa: PLC0415  (an extra)
    except ImportError:
        return None
    values = ["long", "double", "string", "bytes", "null"]
    schema = {
        "type": "record",
        "name": "EventData",
        "namespace": "Microsoft.ServiceBus.Messaging",
        "fields": [
            {"name": "SequenceNumber", "type": "long"},
            {"name": "Offset", "type": "string"},
            {"name": "EnqueuedTimeUtc", "type": "string"},
            {"name": "SystemProperties", "type": {"type": "map", "values": values}},
            {"name": "Properties", "type": {"type": "map", "values": values}},
            {"name": "Body", "type": ["null", "bytes"]},
        ],
    }
    events = [
        {
            "SequenceNumber": number,
            "Offset": str(number * 100),
            "EnqueuedTimeUtc": "7/25/2017 5:22:18 PM" if number % 5 else "never",
            "SystemProperties": {"message-id": f"m-{number}", "x-opt-partition-key": "k"},
            "Properties": {"tenant": "acme", "n": number, "half": 0.5, "none": None},
            "Body": one.data if number % 7 else None,
        }
        for number, one in enumerate(_messages(inputs, 100))
    ]
    stream = io.BytesIO()
    fastavro.writer(stream, schema, events, sync_marker=bytes(range(16)))
    return stream.getvalue()


def _files(inputs: Inputs) -> Iterator[tuple[str, str]]:
    """Yield each record of intact and damaged files in each format."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in list(_written(inputs, folder)):
            sound = path.read_bytes()
            for copy in range(25):
                octets = sound if copy == 0 else damaged(random.Random(copy), sound)
                path.write_bytes(octets)
                title = f"{path.name} {copy}"
                yield f"{title}: form", _tried(partial(files.form_of, path)).replace(name, "FOLDER")
                yield from _records(title, path, name)


def _records(title: str, path: Path, folder: str) -> Iterator[tuple[str, str]]:
    form = {"raw": "raw", "cborseq": "cborseq"}.get(path.suffix[1:], path.suffix[1:])
    number = 0
    try:
        for number, record in enumerate(files.read(path, form, max_size=100_000)):
            if number < 1_000:
                yield f"{title}: record {number}", told(record).replace(folder, "FOLDER")
    except Exception as error:  # noqa: BLE001  (as `_tried`)
        yield f"{title}: error", raised(error).replace(folder, "FOLDER")
    yield f"{title}: last record", str(number)

    def divided() -> str:
        found = files.ranges(path, form, octets=5_000)
        return "; ".join(f"{one.start}-{one.stop}" for one in found)

    yield f"{title}: ranges", _tried(divided).replace(folder, "FOLDER")


AMQP10 = frozenset({"amqp10"})
BASIC = frozenset({"basic"})
_TYPED = partial(_json, notation.to_typed, notation.from_typed, notation.from_typed)
_PLAIN = partial(_json, notation.to_plain, notation.from_plain, notation.value_from_plain)

# Parts of fixed inputs.
_SOME = {"": 10}
#: The parts by name.
PARTS: dict[str, Part] = {
    "wire": Part(_each(_wire), {"messages": 1, "values": 1}, AMQP10),
    "values": Part(_each(_value), {"messages": 10, "values": 1, "composites": 1}, AMQP10),
    "validate": Part(_each(_validated), {"messages": 1, "values": 5}, AMQP10),
    "typed": Part(_each(_TYPED), {"messages": 2, "values": 1, "composites": 5}, AMQP10),
    "plain": Part(_each(_PLAIN), {"messages": 2, "values": 1, "composites": 5}, AMQP10),
    "cbor": Part(_each(_cbor), {"messages": 2, "values": 1, "composites": 5}, AMQP10),
    "text": Part(_each(_text), {"messages": 50, "values": 10, "composites": 10, **_SOME}, AMQP10),
    "columns": Part(_columns, {"messages": 1}, AMQP10, alone=_projected),
    "column-values": Part(_single, {"messages": 20, "values": 1}, AMQP10),
    "schemas": Part(texts=_schemas),
    "to-basic": Part(_each(_to_basic), {"messages": 20}, AMQP10),
    "to-basic-batches": Part(partial(_batches, "0-9-1"), {"messages": 1}, AMQP10),
    "to-amqp10": Part(_each(_to_amqp10), {"basics": 8}, BASIC),
    "to-amqp10-batches": Part(partial(_batches, "1.0"), {"basics": 1}, BASIC),
    "basic": Part(_each(_basic), {"basics": 2}, BASIC),
    "tables": Part(_each(_table), {}, frozenset({"table"})),
    "filters": Part(_each(_matched), {"messages": 20}, AMQP10),
    "filter-makes": Part(texts=_made),
    "filter-values": Part(_each(_filter), {}, frozenset({"filter"})),
    "composites": Part(_each(_composite), {"composites": 1, "values": 10}, AMQP10),
    "files": Part(texts=_files),
    "jobs": Part(texts=_jobs),
}
