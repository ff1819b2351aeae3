"""Conversions to and from proton.Message, and from the copy of proton in RabbitMQ's Python client.

Header and properties are passed as bytes, because proton's attributes blur them (seconds as floats,
cut to milliseconds; absent and empty alike). Annotations, application properties and the body are
passed as Python values, because proton's decoder drops nested described values and returns views of
memory that it reuses. The result is then encoded, decoded and compared: nothing is lost silently.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import Any

import attrs
import proton

from amqp10msg.composite import rows
from amqp10msg.message import Message
from amqp10msg.sections import KINDS, AmqpSequence, AmqpValue, Data, Header, Properties
from amqp10msg.sections.parts import Malformed, parts_of
from amqp10msg.wire.errors import DecodeError, EncodeError, as_bytes, wrong_type
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import (
    INTEGERS,
    AmqpMap,
    Array,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Symbol,
    Timestamp,
    identical,
)

# Values, by their exact type: so proton chooses the encoding, too.


def _same(value: Any) -> Any:
    return value


# What is the same class here and there.
_SAME: dict[type, Callable[[Any], Any]] = dict.fromkeys(
    (type(None), bool, int, float, bytes, str, uuid.UUID), _same
)
# By the class here, that of proton.
_CLASSES: dict[type, Any] = {
    cls: getattr(proton, {"int": "int32", "float": "float32"}.get(name, name))
    for name, cls in {**INTEGERS, "float": Float, "char": Char, "symbol": Symbol}.items()
}
_TO_PROTON: dict[type, Callable[[Any], Any]] = {
    **_SAME,
    **_CLASSES,
    Decimal32: lambda value: proton.decimal32(value.bits),
    Decimal64: lambda value: proton.decimal64(value.bits),
    Decimal128: lambda value: proton.decimal128(value.bits.to_bytes(16, "big")),
}
_FROM_PROTON: dict[type, Callable[[Any], Any]] = {
    **_SAME,
    **{theirs: ours for ours, theirs in _CLASSES.items()},
    # Views of memory that the proton.Message frees or overwrites: copy them while they are valid.
    bytearray: bytes,
    memoryview: bytes,
    proton.decimal32: Decimal32,
    proton.decimal64: Decimal64,
    proton.decimal128: lambda value: Decimal128(int.from_bytes(value, "big")),
}
_ARRAY_TYPES = {
    code: "boolean" if code == proton.Data.BOOL else name
    for code, name in proton.Data.type_names.items()
    if code != proton.Data.DESCRIBED
}
_ARRAY_CODES = {name: code for code, name in _ARRAY_TYPES.items()}


def _to_value(value: Any) -> Any:
    """Return a value as proton takes it."""
    convert = _TO_PROTON.get(type(value))
    if convert is not None:
        return convert(value)
    if isinstance(value, list):
        return [_to_value(item) for item in value]
    if isinstance(value, dict):
        return {_to_key(key): _to_value(item) for key, item in value.items()}
    if isinstance(value, AmqpMap):
        return {_to_key(key): _to_value(item) for key, item in value.pairs}
    if isinstance(value, Array):
        if len(value.descriptors) > 1:
            raise EncodeError("an array of proton has at most one descriptor")
        descriptor: Any = proton.UNDESCRIBED
        if value.descriptors:
            descriptor = _to_value(value.descriptors[0])
        return proton.Array(descriptor, _ARRAY_CODES[value.type], *map(_to_value, value.values))
    return proton.Described(_to_value(value.descriptor), _to_value(value.value))


def _to_key(key: Any) -> Any:
    made = _to_value(key)
    try:
        hash(made)
    except TypeError:
        raise EncodeError(
            f"proton holds maps as dicts, and {key!r} cannot be the key of a dict"
        ) from None
    return made


@cache
def _proton_class(cls: Any) -> Any:
    """Return proton's class for a class of a copy of proton; `cls` itself if it is no such copy.

    RabbitMQ's client carries a copy as ``rabbitmq_amqp_python_client.qpid.proton``. Its classes
    have the same names and structure, and are not those of the package proton.
    """
    if not cls.__module__.endswith(".proton._data"):
        return cls
    theirs = getattr(proton, cls.__name__, None)
    return theirs if isinstance(theirs, type) else cls


def _from_value(value: Any) -> Any:
    """Return a value of proton with its exact AMQP type, copied where proton reuses its memory."""
    given: Any = type(value)
    cls = _proton_class(given)
    convert = _FROM_PROTON.get(cls)
    if convert is not None:
        try:
            return convert(value)
        except (ValueError, OverflowError) as error:
            raise EncodeError(str(error)) from None
    if isinstance(value, (list, tuple)):
        return [_from_value(item) for item in value]
    if isinstance(value, dict):
        pairs = [(_from_value(key), _from_value(item)) for key, item in value.items()]
        made = dict(pairs)
        return made if len(made) == len(pairs) else AmqpMap(pairs)
    if issubclass(cls, proton.Array):
        if value.type not in _ARRAY_TYPES:
            raise EncodeError(
                f"{value!r} is an array without an AMQP type; for an array of described values, "
                "pass proton.Array the descriptor and the type of the values that are described"
            )
        descriptor: Any = value.descriptor
        return Array(
            _ARRAY_TYPES[value.type],
            map(_from_value, value.elements),
            descriptors=[] if _is_undescribed(descriptor) else [_from_value(descriptor)],
        )
    if issubclass(cls, proton.Described):
        return Described(_from_value(value.descriptor), _from_value(value.value))
    raise EncodeError(
        f"proton does not encode {type(value).__name__}: use str, bytes, int, float, bool, "
        "uuid.UUID, list, dict or one of proton's own classes"
    )


def _is_undescribed(descriptor: Any) -> bool:
    """Whether this is the constant UNDESCRIBED of proton, or of a copy of it."""
    return descriptor is proton.UNDESCRIBED or (
        type(descriptor).__name__ == "Constant"
        and getattr(descriptor, "name", None) == proton.UNDESCRIBED.name
    )


def _from_property(value: Any) -> Any:
    """Return a value of application properties, as `_from_value`."""
    # Proton encodes subclasses of str as plain strings here.
    if isinstance(value, str) and _proton_class(type(value)) not in _FROM_PROTON:
        return str(value)
    return _from_value(value)


# Messages.

# What proton reads by itself.
_HEAD_CODES = frozenset(kind.code for kind in KINDS if kind.cls in (Header, Properties))
# Attributes that proton passes through C strings; from 0.40 on, it keeps and sends all of the text.
_C_STRINGS = (
    "to",
    "subject",
    "reply_to",
    "content_type",
    "content_encoding",
    "group_id",
    "reply_to_group_id",
)


def _entries(name: str, mapping: Any, convert: Callable[[Any], Any]) -> Any:
    """Convert a map section; an error names the entry."""
    if mapping is None:
        return None
    if not isinstance(mapping, dict):
        raise EncodeError(f"must be a dict, not {type(mapping).__name__}", name)
    made = {}
    for key, value in mapping.items():
        try:
            made[convert(key)] = convert(value)
        except EncodeError as error:
            raise EncodeError(error.reason, f"{name}[{key!r}]") from None
    return made


# From proton.


def from_proton(message: Any) -> Message:
    """Convert a proton.Message, every value with its exact AMQP type.

    Also takes the ``Message`` of RabbitMQ's client (rabbitmq-amqp-python-client), such as
    ``event.message`` of its consumers, which is a class of its own copy of proton.

    Proton encodes a header and properties even if they are empty; here they are None then. A body
    of bytes or a list becomes `Data` or `AmqpSequence` if `message.inferred` is true, as proton
    sends it, else an `AmqpValue`. The message-format, which proton does not know, is 0.

    Args:
        message: unchanged afterwards; no other thread may use it meanwhile. What proton decoded
            into it is copied.

    Raises:
        TypeError: `message` is neither of these.
        EncodeError: a value has no AMQP encoding; the error names the place.
        DecodeError: proton decoded a header or properties that violate the specification, such as
            a subject that is not UTF-8, and keeps them.
    """
    if not all(hasattr(message, name) for name in ("body", "inferred", "instructions", "encode")):
        raise wrong_type("from_proton", "a proton.Message", message)
    body: Any = message.body
    if body is not None:
        try:
            body = _from_value(body)
        except EncodeError as error:
            raise EncodeError(error.reason, "body") from None
        if message.inferred and isinstance(body, bytes):
            body = Data(body)
        elif message.inferred and isinstance(body, list):
            body = AmqpSequence(body)
        else:
            body = AmqpValue(body)
    made = Message(
        body,
        delivery_annotations=_entries("delivery-annotations", message.instructions, _from_value),
        message_annotations=_entries("message-annotations", message.annotations, _from_value),
        application_properties=_entries(
            "application-properties", getattr(message, _properties_of(message)), _from_property
        ),
    )
    head = Message.decode(_encoded_head(message))
    if head.header != Header():
        made.header = head.header
    if head.properties != Properties():
        made.properties = head.properties
    return made


def _properties_of(message: Any) -> str:
    """Return the name of the attribute with the application properties."""
    is_rabbitmq = hasattr(message, "application_properties")
    return "application_properties" if is_rabbitmq else "properties"


def _encoded_head(message: Any) -> bytes:
    """Let proton encode header and properties alone.

    What it decoded is in the buffers that encoding fills: encoding all of a message whose
    properties or body were changed since would overwrite what is still to be read.
    """
    names = ["instruction_dict", "annotation_dict"]
    if not hasattr(message, "instruction_dict"):  # of RabbitMQ's client
        names = ["instructions", "annotations"]
    held = {name: getattr(message, name) for name in (*names, _properties_of(message), "body")}
    try:
        for name in held:
            setattr(message, name, None)
        return bytes(message.encode())
    finally:
        for name, value in held.items():
            setattr(message, name, value)


# To proton.


@attrs.frozen
class Loss:
    """One thing that a proton.Message cannot hold.

    Attributes:
        path: the place, such as ``header.ttl`` or ``footer``.
        text: what becomes of it.
    """

    path: str
    text: str


def to_proton(message: Message, *, lossy: bool = False) -> proton.Message:
    """Convert to a proton.Message, every value with its AMQP type.

    It is not a loss if an empty header or properties, or a field with its default value, become
    explicit or absent, and proton chooses the encodings. A body of `Data` or `AmqpSequence` makes
    `inferred` true.

    Args:
        message: is not changed.
        lossy: convert even if there are `losses`.

    Raises:
        EncodeError: there are losses, and `lossy` is false; or the message violates the
            specification; or proton cannot express it at all: a map key that Python cannot hash,
            an array with several descriptors, or more values than fit its buffers.
    """
    usual = _usual(message)
    if usual is not None:
        return usual
    made, lost = _convert(message)
    if lost and not lossy:
        more = f" and {len(lost) - 1} more, see losses()" if len(lost) > 1 else ""
        raise EncodeError(f"{lost[0].text}{more}; lossy=True converts anyway", lost[0].path)
    return made


def losses(message: Message) -> tuple[Loss, ...]:
    """Return the losses of `to_proton` for a message.

    Raises:
        EncodeError: proton cannot express the message even with losses, as `to_proton` says.
    """
    return () if _usual(message) is not None else tuple(_convert(message)[1])


# What every proton.Message holds as it is, alone and in maps and lists: NaN is the exception.
_SIMPLE = frozenset((*_SAME, *_CLASSES))
_BODIES = frozenset((Data, AmqpSequence, AmqpValue))
_KEYS: tuple[set[type], ...] = (set(), {str}, {Symbol})
_TEXTS = {str, Symbol}
_TIMES = (type(None), int, Timestamp)
_MOST = 1_000


def _usual(message: Message) -> proton.Message | None:
    """Convert a message that proton holds whole, as its table says; None where that is not certain.

    What is certain needs no look at what proton makes of it, which costs three times as much.
    """
    if message.message_format or message.footer is not None or message._lenient:
        return None
    try:
        octets = message.encode()
        said = message if octets == message._wire else Message.decode(octets)
    except (DecodeError, EncodeError):
        return None
    body: Any = said.body
    if not (
        (said.header is None or said.header.ttl != 0)
        and _is_usual_properties(said.properties)
        and (body is None or type(body) in _BODIES)
    ):
        return None
    content = _content(body)
    is_usual = body is None
    if type(content) is list:
        is_usual = _are_simple(content)
    elif type(content) is dict:
        is_usual = set(map(type, content)) in _KEYS and _are_simple(content.values())
    elif content is not None:
        is_usual = _are_simple((content,))
    maps = (said.delivery_annotations, said.message_annotations, said.application_properties)
    for entries in maps:
        if entries is not None and is_usual:
            # Keys of several types may be equal in proton's dict.
            keys = set(map(type, entries))
            is_usual = keys <= _TEXTS if entries is not maps[2] else keys <= {str}
            is_usual = is_usual and _are_simple(entries.values())
    if not is_usual:
        return None
    made: Any = proton.Message()
    head = b"".join(
        octets[start:end]
        for code, start, _, end in parts_of(octets, lenient=False)
        if code in _HEAD_CODES
    )
    if head:
        made.decode(head)
    made.inferred = isinstance(body, (Data, AmqpSequence))
    made.body = _to_value(content)
    made.instructions, made.annotations = (_simple(entries, proton.symbol) for entries in maps[:2])
    made.properties = _simple(maps[2], str)
    return made  # type: ignore[no-any-return]  # the other package has no types


def _simple(entries: Mapping[Any, Any] | None, key_type: Any) -> dict[Any, Any] | None:
    """Convert a map of simple values, without a call for those that stay as they are."""
    if entries is None:
        return None
    find = _CLASSES.get
    return {
        key if key_type is str else key_type(key): (
            value if (cls := find(type(value))) is None else cls(value)
        )
        for key, value in entries.items()
    }


def _are_simple(values: Collection[Any]) -> bool:
    """Return whether proton holds values as they are."""
    kinds = set(map(type, values))
    if not kinds <= _SIMPLE or len(values) > _MOST:
        return False
    return kinds.isdisjoint((float, Float)) or all(value == value for value in values)  # noqa: PLR0124  (NaN)


def _is_usual_properties(given: Properties | None) -> bool:
    # Proton holds 0 for what is absent, and a group has always a sequence.
    return given is None or (
        all(
            type(time) in _TIMES and time != 0
            for time in (given.creation_time, given.absolute_expiry_time)
        )
        and (given.group_id is None) is (given.group_sequence is None)
        and not any("\0" in (getattr(given, name) or "") for name in _C_STRINGS)
    )


def _convert(message: Message) -> tuple[proton.Message, list[Loss]]:
    lost = []
    body = Message(message.body).body
    if isinstance(body, list) and len(body) > 1:
        lost.append(Loss("body", f"the {len(body)} sections of the body are joined into one"))
        body = _joined(body)
    said = _exact(message, body)
    lost += _left_out(message, said)
    head = Message(header=said.header, properties=said.properties).encode()
    made: Any = proton.Message()
    try:
        if head:
            made.decode(head)
        made.inferred = isinstance(said.body, (Data, AmqpSequence))
        made.body = _body_value(said.body)
        made.instructions = _entries("delivery-annotations", said.delivery_annotations, _to_value)
        made.annotations = _entries("message-annotations", said.message_annotations, _to_value)
        made.properties = _entries("application-properties", said.application_properties, _to_value)
        back = Message.decode(bytes(made.encode()), strict=False, limits=UNLIMITED)
    except (proton.ProtonException, DecodeError, RecursionError) as error:
        raise EncodeError(
            f"proton cannot encode this message: {error} (it takes 65,535 values a section at most)"
        ) from error
    known = {loss.path for loss in lost}
    return made, lost + [loss for loss in _differences(said, back) if loss.path not in known]


def _left_out(message: Message, said: Message) -> Iterator[Loss]:
    """Yield what has no place in a proton.Message."""
    if message.message_format:
        yield Loss("message-format", f"proton sends 0 instead of {message.message_format:#x}")
    if message.footer is not None:
        yield Loss("footer", "proton has no footer: it is left out")
    for name, section in message.sections():
        if isinstance(section, (Described, Malformed)):
            yield Loss(name, "a section that is unknown, repeated or unreadable is left out")
    for violation in message.violations:
        if violation.rule == "too-many-fields":
            yield Loss(violation.path, "the fields after those that are defined are left out")
    for name in _C_STRINGS:
        if "\0" in (getattr(said.properties, name, None) or ""):
            path = f"properties.{name.replace('_', '-')}"
            yield Loss(path, "proton's attribute shows the text up to the first NUL")


def _joined(body: list[Any]) -> Any:
    if all(isinstance(part, Data) for part in body):
        return Data(b"".join(as_bytes(part.data, "Data") for part in body))
    if all(isinstance(part, AmqpSequence) for part in body):
        return AmqpSequence([value for part in body for value in part.values])
    return body


def _or_none(section: Any) -> Any:
    return None if isinstance(section, AmqpMap) else section


def _exact(message: Message, body: Any) -> Message:
    """Return the part of a message that proton can hold, all values in their exact types."""
    fresh = Message(
        body,
        header=message.header,
        delivery_annotations=_or_none(message.delivery_annotations),
        message_annotations=_or_none(message.message_annotations),
        properties=message.properties,
        application_properties=_or_none(message.application_properties),
    )
    try:
        return Message.decode(fresh.encode(), limits=UNLIMITED)
    except DecodeError as error:
        raise EncodeError(error.reason, error.path) from error


def _body_value(body: Any) -> Any:
    try:
        return _to_value(_content(body))
    except EncodeError as error:
        raise EncodeError(error.reason, "body") from None


def _content(body: Any) -> Any:
    if isinstance(body, Data):
        return body.data
    if isinstance(body, AmqpSequence):
        return body.values
    return body.value if isinstance(body, AmqpValue) else None


def _differences(said: Message, back: Message) -> Iterator[Loss]:
    """Yield the differences between a message and what proton made of it."""
    for kind in KINDS[:5]:
        ours, theirs = getattr(said, kind.attribute), getattr(back, kind.attribute)
        if kind.source == "list":
            ours, theirs = ours or kind.cls(), theirs or kind.cls()
            for field in rows(kind.cls):
                mine, other = getattr(ours, field.name), getattr(theirs, field.name)
                if not identical(mine, other):
                    yield Loss(f"{kind.name}.{field.wire_name}", f"{mine!r} becomes {other!r}")
            continue
        for key, value in (ours or {}).items():
            other = (theirs or {}).get(key)
            if not identical(value, other):
                yield Loss(f"{kind.name}[{key!r}]", f"{value!r} becomes {other!r}")
    if said.body is not None and back.body is None:
        yield Loss("body", "a null value becomes no body at all")
    elif type(said.body) is not type(back.body) or not identical(
        _content(said.body), _content(back.body)
    ):
        yield Loss("body", f"{said.body!r:.200} becomes {back.body!r:.200}")
