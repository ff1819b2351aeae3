"""Convert to and from proton.Message, and from the copy of proton in RabbitMQ's Python client.

Header and properties are passed as bytes, because proton's attributes lose information: times are
floats in seconds, truncated to milliseconds, and absent and empty values are equal. Annotations,
application properties and the body are passed as Python values, because proton's decoder drops
nested described values and returns views of memory that it reuses. The result is then encoded,
decoded and compared: nothing is lost silently.
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

# Conversions of values by exact type, which is also how proton chooses encodings.


def _identity(value: Any) -> Any:
    return value


# Classes that this library and proton share.
_SHARED_CLASSES: dict[type, Callable[[Any], Any]] = dict.fromkeys(
    (type(None), bool, int, float, bytes, str, uuid.UUID), _identity
)
# Our class -> proton's class.
_CLASSES: dict[type, Any] = {
    cls: getattr(proton, {"int": "int32", "float": "float32"}.get(name, name))
    for name, cls in {**INTEGERS, "float": Float, "char": Char, "symbol": Symbol}.items()
}
_TO_PROTON: dict[type, Callable[[Any], Any]] = {
    **_SHARED_CLASSES,
    **_CLASSES,
    Decimal32: lambda value: proton.decimal32(value.bits),
    Decimal64: lambda value: proton.decimal64(value.bits),
    Decimal128: lambda value: proton.decimal128(value.bits.to_bytes(16, "big")),
}
_FROM_PROTON: dict[type, Callable[[Any], Any]] = {
    **_SHARED_CLASSES,
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
    """Convert a value to proton's classes."""
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
    converted = _to_value(key)
    try:
        hash(converted)
    except TypeError:
        raise EncodeError(
            f"proton stores maps as dicts, and {key!r} cannot be the key of a dict"
        ) from None
    return converted


@cache
def _proton_class(cls: Any) -> Any:
    """Return proton's class for a class of a bundled copy of proton; other classes unchanged.

    RabbitMQ's client bundles a copy as ``rabbitmq_amqp_python_client.qpid.proton``. Its classes
    have the same names and structure, but are distinct from the classes of the package proton.
    """
    if not cls.__module__.endswith(".proton._data"):
        return cls
    proton_class = getattr(proton, cls.__name__, None)
    return proton_class if isinstance(proton_class, type) else cls


def _from_value(value: Any) -> Any:
    """Convert a value of proton to its exact AMQP type; copy views of memory that proton reuses."""
    value_class: Any = type(value)
    cls = _proton_class(value_class)
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
        result = dict(pairs)
        return result if len(result) == len(pairs) else AmqpMap(pairs)
    if issubclass(cls, proton.Array):
        if value.type not in _ARRAY_TYPES:
            raise EncodeError(
                f"{value!r} is an array without an AMQP type; for an array of described values, "
                "pass proton.Array the descriptor and the type of the described values"
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
    """Whether a descriptor is the constant UNDESCRIBED of proton or of a bundled copy."""
    return descriptor is proton.UNDESCRIBED or (
        type(descriptor).__name__ == "Constant"
        and getattr(descriptor, "name", None) == proton.UNDESCRIBED.name
    )


def _from_property(value: Any) -> Any:
    """Convert a value of the application properties with `_from_value`.

    Unknown subclasses of str become str, because proton encodes them as strings in this section.
    """
    if isinstance(value, str) and _proton_class(type(value)) not in _FROM_PROTON:
        return str(value)
    return _from_value(value)


# Messages.

# Codes of the sections that proton decodes itself: header and properties.
_HEAD_CODES = frozenset(kind.code for kind in KINDS if kind.cls in (Header, Properties))
# Properties that proton's attributes show as C strings, which end at the first NUL. Since 0.40,
# proton keeps and sends the text after the NUL, too.
_C_STRINGS = (
    "to",
    "subject",
    "reply_to",
    "content_type",
    "content_encoding",
    "group_id",
    "reply_to_group_id",
)


def _convert_map_section(name: str, mapping: Any, convert: Callable[[Any], Any]) -> Any:
    """Convert a map section. The path of an error contains the key of the invalid entry."""
    if mapping is None:
        return None
    if not isinstance(mapping, dict):
        raise EncodeError(f"must be a dict, not {type(mapping).__name__}", name)
    converted = {}
    for key, value in mapping.items():
        try:
            converted[convert(key)] = convert(value)
        except EncodeError as error:
            raise EncodeError(error.reason, f"{name}[{key!r}]") from None
    return converted


# From proton to this library.


def from_proton(message: Any) -> Message:
    """Convert a proton.Message, every value with its exact AMQP type.

    The ``Message`` of RabbitMQ's client (rabbitmq-amqp-python-client) is accepted as well, for
    example ``event.message`` of its consumers; it is a class of a bundled copy of proton.

    Proton encodes even an empty header and empty properties; here they become None. A body of bytes
    or a list becomes `Data` or `AmqpSequence` if `message.inferred` is true, as proton would send
    it, otherwise an `AmqpValue`. The message-format is 0, because proton does not store it.

    Args:
        message: the message. It is unchanged afterwards, but other threads must not use it during
            the call. Decoded values are copied.

    Raises:
        TypeError: `message` has another type.
        EncodeError: a value has no AMQP encoding; the error contains its path.
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
    result = Message(
        body,
        delivery_annotations=_convert_map_section(
            "delivery-annotations", message.instructions, _from_value
        ),
        message_annotations=_convert_map_section(
            "message-annotations", message.annotations, _from_value
        ),
        application_properties=_convert_map_section(
            "application-properties",
            getattr(message, _properties_attribute(message)),
            _from_property,
        ),
    )
    head = Message.decode(_encoded_head(message))
    if head.header != Header():
        result.header = head.header
    if head.properties != Properties():
        result.properties = head.properties
    return result


def _properties_attribute(message: Any) -> str:
    """Return the name of the attribute of `message` that contains the application properties."""
    is_rabbitmq = hasattr(message, "application_properties")
    return "application_properties" if is_rabbitmq else "properties"


def _encoded_head(message: Any) -> bytes:
    """Have proton encode header and properties only: temporarily remove the remaining sections.

    Encoding the whole message would be unsafe: its buffers contain the decoded values, so encoding
    changed properties or a changed body could overwrite values that are not yet copied.
    """
    names = ["instruction_dict", "annotation_dict"]
    if not hasattr(message, "instruction_dict"):  # a message of RabbitMQ's client
        names = ["instructions", "annotations"]
    saved = {
        name: getattr(message, name) for name in (*names, _properties_attribute(message), "body")
    }
    try:
        for name in saved:
            setattr(message, name, None)
        return bytes(message.encode())
    finally:
        for name, value in saved.items():
            setattr(message, name, value)


# From this library to proton.


@attrs.frozen
class Loss:
    """A value that a proton.Message cannot hold.

    Attributes:
        path: the path of the value, such as ``header.ttl`` or ``footer``.
        text: a description of the change.
    """

    path: str
    text: str


def to_proton(message: Message, *, lossy: bool = False) -> proton.Message:
    """Convert a message to a proton.Message, every value with its AMQP type.

    Proton chooses the encodings. It may omit or add an empty header, empty properties and fields
    with default values; this is not a loss. `inferred` is true for `Data` and `AmqpSequence`.

    Args:
        message: the message; it is not modified.
        lossy: convert the message even if there are `losses`.

    Raises:
        EncodeError: there are losses, and `lossy` is false; or the message violates the
            specification; or proton cannot express it at all: a map key that Python cannot hash,
            an array with several descriptors, or more values than fit its buffers.
    """
    preserved = _convert_fast(message)
    if preserved is not None:
        return preserved
    result, found_losses = _convert_and_compare(message)
    if found_losses and not lossy:
        further_losses = (
            f" and {len(found_losses) - 1} more, see losses()" if len(found_losses) > 1 else ""
        )
        raise EncodeError(
            f"{found_losses[0].text}{further_losses}; lossy=True converts anyway",
            found_losses[0].path,
        )
    return result


def losses(message: Message) -> tuple[Loss, ...]:
    """Return the losses of `to_proton` for a message.

    Raises:
        EncodeError: proton cannot express the message even with losses; see `to_proton`.
    """
    return () if _convert_fast(message) is not None else tuple(_convert_and_compare(message)[1])


# Classes whose values proton preserves, alone and in maps and lists, except for NaN.
_SIMPLE_CLASSES = frozenset((*_SHARED_CLASSES, *_CLASSES))
_BODY_CLASSES = frozenset((Data, AmqpSequence, AmqpValue))
_FAST_KEY_TYPES: tuple[set[type], ...] = (set(), {str}, {Symbol})
_ANNOTATION_KEY_TYPES = {str, Symbol}
_FAST_TIME_TYPES = (type(None), int, Timestamp)
_MAX_FAST_VALUES = 1_000


def _convert_fast(message: Message) -> proton.Message | None:
    """Convert a message that proton certainly preserves; return None if that is uncertain.

    This is the fast path: it skips the comparison with proton's encoding, which costs three times
    as much.
    """
    if message.message_format or message.footer is not None or message._lenient:
        return None
    try:
        octets = message.encode()
        decoded = message if octets == message._wire else Message.decode(octets)
    except (DecodeError, EncodeError):
        return None
    body: Any = decoded.body
    if not (
        (decoded.header is None or decoded.header.ttl != 0)
        and _has_simple_properties(decoded.properties)
        and (body is None or type(body) in _BODY_CLASSES)
    ):
        return None
    content = _body_content(body)
    is_preserved = body is None
    if type(content) is list:
        is_preserved = _are_simple(content)
    elif type(content) is dict:
        is_preserved = set(map(type, content)) in _FAST_KEY_TYPES and _are_simple(content.values())
    elif content is not None:
        is_preserved = _are_simple((content,))
    maps = (
        decoded.delivery_annotations,
        decoded.message_annotations,
        decoded.application_properties,
    )
    for entries in maps:
        if entries is not None and is_preserved:
            # Keys of different types may be equal in proton's dict.
            keys = set(map(type, entries))
            is_preserved = (
                keys <= _ANNOTATION_KEY_TYPES if entries is not maps[2] else keys <= {str}
            )
            is_preserved = is_preserved and _are_simple(entries.values())
    if not is_preserved:
        return None
    proton_message: Any = proton.Message()
    head = b"".join(
        octets[start:end]
        for code, start, _, end in parts_of(octets, lenient=False)
        if code in _HEAD_CODES
    )
    if head:
        proton_message.decode(head)
    proton_message.inferred = isinstance(body, (Data, AmqpSequence))
    proton_message.body = _to_value(content)
    proton_message.instructions, proton_message.annotations = (
        _convert_simple_map(entries, proton.symbol) for entries in maps[:2]
    )
    proton_message.properties = _convert_simple_map(maps[2], str)
    return proton_message  # type: ignore[no-any-return]  # the other package has no types


def _convert_simple_map(entries: Mapping[Any, Any] | None, key_type: Any) -> dict[Any, Any] | None:
    """Convert a map of simple values; fast, because unchanged values need no call."""
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
    """Whether proton preserves these values: simple types, not too many, no NaN."""
    kinds = set(map(type, values))
    if not kinds <= _SIMPLE_CLASSES or len(values) > _MAX_FAST_VALUES:
        return False
    return kinds.isdisjoint((float, Float)) or all(value == value for value in values)  # noqa: PLR0124  (NaN)


def _has_simple_properties(properties: Properties | None) -> bool:
    # Proton turns a time of 0 into an absent time, and adds the group-sequence 0 to a group-id
    # that has no group-sequence.
    return properties is None or (
        all(
            type(time) in _FAST_TIME_TYPES and time != 0
            for time in (properties.creation_time, properties.absolute_expiry_time)
        )
        and (properties.group_id is None) is (properties.group_sequence is None)
        and not any("\0" in (getattr(properties, name) or "") for name in _C_STRINGS)
    )


def _convert_and_compare(message: Message) -> tuple[proton.Message, list[Loss]]:
    found_losses = []
    body = Message(message.body).body
    if isinstance(body, list) and len(body) > 1:
        found_losses.append(
            Loss("body", f"the {len(body)} sections of the body are joined into one")
        )
        body = _join_sections(body)
    expected = _supported_part(message, body)
    found_losses += _unsupported_parts(message, expected)
    head = Message(header=expected.header, properties=expected.properties).encode()
    proton_message: Any = proton.Message()
    try:
        if head:
            proton_message.decode(head)
        proton_message.inferred = isinstance(expected.body, (Data, AmqpSequence))
        proton_message.body = _to_proton_body(expected.body)
        proton_message.instructions = _convert_map_section(
            "delivery-annotations", expected.delivery_annotations, _to_value
        )
        proton_message.annotations = _convert_map_section(
            "message-annotations", expected.message_annotations, _to_value
        )
        proton_message.properties = _convert_map_section(
            "application-properties", expected.application_properties, _to_value
        )
        encoded = Message.decode(bytes(proton_message.encode()), strict=False, limits=UNLIMITED)
    except (proton.ProtonException, DecodeError, RecursionError) as error:
        raise EncodeError(
            f"proton cannot encode this message: {error} (its limit is 65,535 values per section)"
        ) from error
    reported_paths = {loss.path for loss in found_losses}
    return proton_message, found_losses + [
        loss for loss in _differences(expected, encoded) if loss.path not in reported_paths
    ]


def _unsupported_parts(message: Message, expected: Message) -> Iterator[Loss]:
    """Yield the losses of values that a proton.Message has no attribute for."""
    if message.message_format:
        yield Loss("message-format", f"proton sends 0 instead of {message.message_format:#x}")
    if message.footer is not None:
        yield Loss("footer", "proton has no footer: it is left out")
    for name, section in message.sections():
        if isinstance(section, (Described, Malformed)):
            yield Loss(name, "a section that is unknown, repeated or unreadable is left out")
    for violation in message.violations:
        if violation.rule == "too-many-fields":
            yield Loss(violation.path, "the fields after the defined ones are left out")
    for name in _C_STRINGS:
        if "\0" in (getattr(expected.properties, name, None) or ""):
            path = f"properties.{name.replace('_', '-')}"
            yield Loss(path, "proton's attribute shows the text up to the first NUL")


def _join_sections(body: list[Any]) -> Any:
    if all(isinstance(part, Data) for part in body):
        return Data(b"".join(as_bytes(part.data, "Data") for part in body))
    if all(isinstance(part, AmqpSequence) for part in body):
        return AmqpSequence([value for part in body for value in part.values])
    return body


def _none_if_amqp_map(section: Any) -> Any:
    return None if isinstance(section, AmqpMap) else section


def _supported_part(message: Message, body: Any) -> Message:
    """Return a copy with the sections that proton supports, and with exact AMQP types."""
    supported = Message(
        body,
        header=message.header,
        delivery_annotations=_none_if_amqp_map(message.delivery_annotations),
        message_annotations=_none_if_amqp_map(message.message_annotations),
        properties=message.properties,
        application_properties=_none_if_amqp_map(message.application_properties),
    )
    try:
        return Message.decode(supported.encode(), limits=UNLIMITED)
    except DecodeError as error:
        raise EncodeError(error.reason, error.path) from error


def _to_proton_body(body: Any) -> Any:
    try:
        return _to_value(_body_content(body))
    except EncodeError as error:
        raise EncodeError(error.reason, "body") from None


def _body_content(body: Any) -> Any:
    if isinstance(body, Data):
        return body.data
    if isinstance(body, AmqpSequence):
        return body.values
    return body.value if isinstance(body, AmqpValue) else None


def _differences(expected: Message, actual: Message) -> Iterator[Loss]:
    """Yield the differences between a message and the message that proton encoded."""
    for kind in KINDS[:5]:
        expected_section, actual_section = (
            getattr(expected, kind.attribute),
            getattr(actual, kind.attribute),
        )
        if kind.source == "list":
            expected_section, actual_section = (
                expected_section or kind.cls(),
                actual_section or kind.cls(),
            )
            for field in rows(kind.cls):
                expected_value, actual_value = (
                    getattr(expected_section, field.name),
                    getattr(actual_section, field.name),
                )
                if not identical(expected_value, actual_value):
                    yield Loss(
                        f"{kind.name}.{field.wire_name}",
                        f"{expected_value!r} becomes {actual_value!r}",
                    )
            continue
        for key, value in (expected_section or {}).items():
            actual_value = (actual_section or {}).get(key)
            if not identical(value, actual_value):
                yield Loss(f"{kind.name}[{key!r}]", f"{value!r} becomes {actual_value!r}")
    if expected.body is not None and actual.body is None:
        yield Loss("body", "a null value becomes no body at all")
    elif type(expected.body) is not type(actual.body) or not identical(
        _body_content(expected.body), _body_content(actual.body)
    ):
        yield Loss("body", f"{expected.body!r:.200} becomes {actual.body!r:.200}")
