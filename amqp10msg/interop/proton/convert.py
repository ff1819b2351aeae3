"""Convert to and from proton.Message, and from the copy of proton in RabbitMQ's Python client.

To and from proton, header and properties are passed as encoded bytes, because proton's attributes
lose information: times are floats in seconds, truncated to milliseconds, and absent and empty
values are equal. Annotations, application properties and the body are passed as Python values,
because proton's decoder drops nested described values and returns views of memory that it reuses.
`to_proton` has proton encode the result, decodes the bytes and compares the messages, so that
nothing is lost silently.
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

# Conversions of values by exact type: proton, too, chooses an encoding by the exact type.


def _identity(value: Any) -> Any:
    return value


# Classes that this library and proton both use: their values are not converted.
_SHARED_CLASSES: dict[type, Callable[[Any], Any]] = dict.fromkeys(
    (type(None), bool, int, float, bytes, str, uuid.UUID), _identity
)
# {class of this library: the corresponding class of proton}.
_PROTON_CLASSES: dict[type, Any] = {
    cls: getattr(proton, {"int": "int32", "float": "float32"}.get(name, name))
    for name, cls in {**INTEGERS, "float": Float, "char": Char, "symbol": Symbol}.items()
}
_TO_PROTON: dict[type, Callable[[Any], Any]] = {
    **_SHARED_CLASSES,
    **_PROTON_CLASSES,
    Decimal32: lambda value: proton.decimal32(value.bits),
    Decimal64: lambda value: proton.decimal64(value.bits),
    Decimal128: lambda value: proton.decimal128(value.bits.to_bytes(16, "big")),
}
_FROM_PROTON: dict[type, Callable[[Any], Any]] = {
    **_SHARED_CLASSES,
    **{theirs: ours for ours, theirs in _PROTON_CLASSES.items()},
    # Views of memory that the proton.Message frees or overwrites later: copy them.
    bytearray: bytes,
    memoryview: bytes,
    proton.decimal32: Decimal32,
    proton.decimal64: Decimal64,
    proton.decimal128: lambda value: Decimal128(int.from_bytes(value, "big")),
}
# AMQP type names of array elements, by proton's type code.
_ARRAY_TYPES = {
    code: "boolean" if code == proton.Data.BOOL else name
    for code, name in proton.Data.type_names.items()
    if code != proton.Data.DESCRIBED
}
_ARRAY_CODES = {name: code for code, name in _ARRAY_TYPES.items()}


def _to_proton_value(value: Any) -> Any:
    """Convert a value to proton's classes."""
    convert = _TO_PROTON.get(type(value))
    if convert is not None:
        return convert(value)
    if isinstance(value, list):
        return [_to_proton_value(item) for item in value]
    if isinstance(value, dict):
        return {_to_proton_key(key): _to_proton_value(item) for key, item in value.items()}
    if isinstance(value, AmqpMap):
        return {_to_proton_key(key): _to_proton_value(item) for key, item in value.pairs}
    if isinstance(value, Array):
        if len(value.descriptors) > 1:
            raise EncodeError("an array of proton has at most one descriptor")
        descriptor: Any = proton.UNDESCRIBED
        if value.descriptors:
            descriptor = _to_proton_value(value.descriptors[0])
        return proton.Array(
            descriptor, _ARRAY_CODES[value.type], *map(_to_proton_value, value.values)
        )
    return proton.Described(_to_proton_value(value.descriptor), _to_proton_value(value.value))


def _to_proton_key(key: Any) -> Any:
    """Convert a map key to proton's classes. Raises EncodeError if it cannot be a dict key."""
    converted = _to_proton_value(key)
    try:
        hash(converted)
    except TypeError:
        raise EncodeError(
            f"proton stores maps as dicts, and {key!r} cannot be the key of a dict"
        ) from None
    return converted


@cache
def _proton_class(cls: Any) -> Any:
    """Return the class of the package proton that corresponds to a class of a bundled copy.

    RabbitMQ's client bundles a copy as ``rabbitmq_amqp_python_client.qpid.proton``. The classes of
    a copy have the same names and structure, but are distinct from those of the package proton.
    Any other class is returned unchanged.
    """
    if not cls.__module__.endswith(".proton._data"):
        return cls
    proton_class = getattr(proton, cls.__name__, None)
    return proton_class if isinstance(proton_class, type) else cls


def _from_proton_value(value: Any) -> Any:
    """Convert a value of proton to this library's classes; copy memory that proton reuses."""
    value_class: Any = type(value)
    cls = _proton_class(value_class)
    convert = _FROM_PROTON.get(cls)
    if convert is not None:
        try:
            return convert(value)
        except (ValueError, OverflowError) as error:
            raise EncodeError(str(error)) from None
    if isinstance(value, (list, tuple)):
        return [_from_proton_value(item) for item in value]
    if isinstance(value, dict):
        pairs = [(_from_proton_value(key), _from_proton_value(item)) for key, item in value.items()]
        result = dict(pairs)
        # An AmqpMap, as decoding returns it, for equal keys and for NaN, which a dict cannot find.
        if len(result) != len(pairs) or any(key != key for key in result):  # noqa: PLR0124  (NaN)
            return AmqpMap(pairs)
        return result
    if issubclass(cls, proton.Array):
        if value.type not in _ARRAY_TYPES:
            raise EncodeError(
                f"{value!r} is an array without an AMQP type; for an array of described values, "
                "pass proton.Array the descriptor and the type of the described values"
            )
        descriptor: Any = value.descriptor
        return Array(
            _ARRAY_TYPES[value.type],
            map(_from_proton_value, value.elements),
            descriptors=[] if _is_undescribed(descriptor) else [_from_proton_value(descriptor)],
        )
    if issubclass(cls, proton.Described):
        return Described(_from_proton_value(value.descriptor), _from_proton_value(value.value))
    raise EncodeError(
        f"proton does not encode {type(value).__name__}: use str, bytes, int, float, bool, "
        "uuid.UUID, list, dict or one of proton's own classes"
    )


def _is_undescribed(descriptor: Any) -> bool:
    """Whether the descriptor of an array is the constant UNDESCRIBED of proton or of its copy."""
    return descriptor is proton.UNDESCRIBED or (
        type(descriptor).__name__ == "Constant"
        and getattr(descriptor, "name", None) == proton.UNDESCRIBED.name
    )


def _from_proton_property(value: Any) -> Any:
    """Convert a value of the application properties.

    Unknown subclasses of str become str, because proton encodes them as strings in this section.
    """
    if isinstance(value, str) and _proton_class(type(value)) not in _FROM_PROTON:
        return str(value)
    return _from_proton_value(value)


# Messages.

# Numeric descriptors of the sections that are passed to proton as encoded bytes.
_HEADER_AND_PROPERTIES_CODES = frozenset(
    kind.code for kind in KINDS if kind.cls in (Header, Properties)
)
# Properties that proton's attributes return as C strings, which end at the first NUL. Proton 0.40
# and later still keeps and sends the text after the NUL.
_C_STRING_PROPERTIES = (
    "to",
    "subject",
    "reply_to",
    "content_type",
    "content_encoding",
    "group_id",
    "reply_to_group_id",
)


def _convert_map_section(name: str, mapping: Any, convert: Callable[[Any], Any]) -> Any:
    """Convert the keys and values of a map section. EncodeErrors contain the path of the entry."""
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

    Proton encodes a header and properties even if they are empty; here they become None. If
    `message.inferred` is true, bytes become a `Data` body and a list an `AmqpSequence`, as proton
    would send them; any other body becomes an `AmqpValue`. The message-format is 0, because proton
    does not store it.

    Args:
        message: the message. Other threads must not use it during the call, which changes it
            temporarily. The result shares no memory with it.

    Raises:
        TypeError: `message` has another type.
        EncodeError: a value has no AMQP encoding; the error contains the path of the value.
        DecodeError: the header or the properties violate the specification, for example with a
            subject that is not UTF-8: proton decodes and keeps such values.
    """
    if not all(hasattr(message, name) for name in ("body", "inferred", "instructions", "encode")):
        raise wrong_type("from_proton", "a proton.Message", message)
    body: Any = message.body
    if body is not None:
        try:
            body = _from_proton_value(body)
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
            "delivery-annotations", message.instructions, _from_proton_value
        ),
        message_annotations=_convert_map_section(
            "message-annotations", message.annotations, _from_proton_value
        ),
        application_properties=_convert_map_section(
            "application-properties",
            getattr(message, _properties_attribute(message)),
            _from_proton_property,
        ),
    )
    head = Message.decode(_encode_header_and_properties(message))
    if head.header != Header():
        result.header = head.header
    if head.properties != Properties():
        result.properties = head.properties
    return result


def _properties_attribute(message: Any) -> str:
    """Return the name of the attribute of `message` that contains the application properties."""
    is_rabbitmq = hasattr(message, "application_properties")
    return "application_properties" if is_rabbitmq else "properties"


def _encode_header_and_properties(message: Any) -> bytes:
    """Have proton encode header and properties, with the other sections removed temporarily.

    Encoding the whole message would be unsafe. The memory of its decoded values is reused, so
    encoding changed properties or a changed body could overwrite values that are not copied yet.
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
    """A value that is lost or changed if the message is converted to a proton.Message.

    Attributes:
        path: the path of the value, such as ``header.ttl`` or ``footer``.
        text: a description of the change.
    """

    path: str
    text: str


def to_proton(message: Message, *, lossy: bool = False) -> proton.Message:
    """Convert a message to a proton.Message, every value with its AMQP type.

    When proton sends the result, it chooses the encodings. It may omit or add an empty header,
    empty properties and fields with default values; this is not a loss. The attribute `inferred` of
    the result is true for a body of `Data` or `AmqpSequence`.

    Args:
        message: the message; it is not modified.
        lossy: convert the message even if `losses` reports lost or changed values.

    Raises:
        EncodeError: there are losses, and `lossy` is false. Or the message violates the
            specification. Or proton cannot represent the message at all: a map key is not hashable
            in Python, an array has several descriptors, or a section has too many values.
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
        EncodeError: proton cannot represent the message even with losses; see `to_proton`.
    """
    return () if _convert_fast(message) is not None else tuple(_convert_and_compare(message)[1])


# Classes whose values, except for NaN, proton preserves, also in maps and lists.
_SIMPLE_CLASSES = frozenset((*_SHARED_CLASSES, *_PROTON_CLASSES))
_BODY_CLASSES = frozenset((Data, AmqpSequence, AmqpValue))
# Limits of the fast path (`_convert_fast`): the allowed sets of key types in a map body, the types
# of annotation keys, the types of creation-time and absolute-expiry-time, and the maximum number of
# values in a map or list.
_FAST_PATH_BODY_KEY_TYPES: tuple[set[type], ...] = (set(), {str}, {Symbol})
_FAST_PATH_ANNOTATION_KEY_TYPES = {str, Symbol}
_FAST_PATH_TIME_TYPES = (type(None), int, Timestamp)
_MAX_FAST_PATH_VALUES = 1_000


def _convert_fast(message: Message) -> proton.Message | None:
    """Convert a message whose values proton certainly preserves; return None if that is uncertain.

    This fast path skips `_convert_and_compare`, which takes three times as long.
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
        key_types = set(map(type, content))
        is_preserved = key_types in _FAST_PATH_BODY_KEY_TYPES and _are_simple(content.values())
    elif content is not None:
        is_preserved = _are_simple((content,))
    maps = (
        decoded.delivery_annotations,
        decoded.message_annotations,
        decoded.application_properties,
    )
    for entries in maps:
        if entries is not None and is_preserved:
            # Allow few types of keys: keys of different types may be equal in proton's dict.
            keys = set(map(type, entries))
            is_preserved = (
                keys <= _FAST_PATH_ANNOTATION_KEY_TYPES if entries is not maps[2] else keys <= {str}
            )
            is_preserved = is_preserved and _are_simple(entries.values())
    if not is_preserved:
        return None
    proton_message: Any = proton.Message()
    # Proton skips sections with symbolic descriptors: pass each one with its numeric descriptor.
    head = b"".join(
        b"\0\x53" + bytes((code,)) + octets[start:end]
        for code, _, start, end in parts_of(octets, lenient=False)
        if code in _HEADER_AND_PROPERTIES_CODES
    )
    if head:
        proton_message.decode(head)
    proton_message.inferred = isinstance(body, (Data, AmqpSequence))
    proton_message.body = _to_proton_value(content)
    proton_message.instructions, proton_message.annotations = (
        _convert_simple_map(entries, proton.symbol) for entries in maps[:2]
    )
    proton_message.properties = _convert_simple_map(maps[2], str)
    return proton_message  # type: ignore[no-any-return]  # the other package has no types


def _convert_simple_map(entries: Mapping[Any, Any] | None, key_type: Any) -> dict[Any, Any] | None:
    """Convert a map of simple values, with a call only for values that need conversion."""
    if entries is None:
        return None
    find = _PROTON_CLASSES.get
    return {
        key if key_type is str else key_type(key): (
            value if (cls := find(type(value))) is None else cls(value)
        )
        for key, value in entries.items()
    }


def _are_simple(values: Collection[Any]) -> bool:
    """Whether proton certainly preserves these values: few, of simple types, and no NaN."""
    kinds = set(map(type, values))
    if not kinds <= _SIMPLE_CLASSES or len(values) > _MAX_FAST_PATH_VALUES:
        return False
    return kinds.isdisjoint((float, Float)) or all(value == value for value in values)  # noqa: PLR0124  (NaN)


def _has_simple_properties(properties: Properties | None) -> bool:
    """Whether proton certainly preserves these properties."""
    # Proton turns a time of 0 into an absent time, and adds the group-sequence 0 to a group-id
    # that has no group-sequence.
    return properties is None or (
        all(
            type(time) in _FAST_PATH_TIME_TYPES and time != 0
            for time in (properties.creation_time, properties.absolute_expiry_time)
        )
        and (properties.group_id is None) is (properties.group_sequence is None)
        and not any("\0" in (getattr(properties, name) or "") for name in _C_STRING_PROPERTIES)
    )


def _convert_and_compare(message: Message) -> tuple[proton.Message, list[Loss]]:
    """Convert a message; return it with the losses, by comparison with proton's encoding."""
    found_losses = []
    body = Message(message.body).body
    if isinstance(body, list) and len(body) > 1:
        found_losses.append(
            Loss("body", f"the {len(body)} sections of the body are joined into one")
        )
        body = _join_sections(body)
    expected = _only_supported(message, body)
    found_losses += _unsupported_losses(message, expected)
    head = Message(header=expected.header, properties=expected.properties).encode()
    proton_message: Any = proton.Message()
    try:
        if head:
            proton_message.decode(head)
        proton_message.inferred = isinstance(expected.body, (Data, AmqpSequence))
        proton_message.body = _to_proton_body(expected.body)
        proton_message.instructions = _convert_map_section(
            "delivery-annotations", expected.delivery_annotations, _to_proton_value
        )
        proton_message.annotations = _convert_map_section(
            "message-annotations", expected.message_annotations, _to_proton_value
        )
        proton_message.properties = _convert_map_section(
            "application-properties", expected.application_properties, _to_proton_value
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


def _unsupported_losses(message: Message, expected: Message) -> Iterator[Loss]:
    """Yield the losses of values for which a proton.Message has no attribute."""
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
    for name in _C_STRING_PROPERTIES:
        if "\0" in (getattr(expected.properties, name, None) or ""):
            path = f"properties.{name.replace('_', '-')}"
            yield Loss(path, "proton's attribute shows the text up to the first NUL")


def _join_sections(body: list[Any]) -> Any:
    """Join several `Data` or `AmqpSequence` sections into one; return others unchanged."""
    if all(isinstance(part, Data) for part in body):
        return Data(b"".join(as_bytes(part.data, "Data") for part in body))
    if all(isinstance(part, AmqpSequence) for part in body):
        return AmqpSequence([value for part in body for value in part.values])
    return body


def _none_if_amqp_map(section: Any) -> Any:
    """Return a map section; None for an `AmqpMap`, whose keys a dict of proton cannot hold."""
    return None if isinstance(section, AmqpMap) else section


def _only_supported(message: Message, body: Any) -> Message:
    """Return a copy with `body` and the sections that proton supports, with exact AMQP types."""
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
        return _to_proton_value(_body_content(body))
    except EncodeError as error:
        raise EncodeError(error.reason, "body") from None


def _body_content(body: Any) -> Any:
    if isinstance(body, Data):
        return body.data
    if isinstance(body, AmqpSequence):
        return body.values
    return body.value if isinstance(body, AmqpValue) else None


def _differences(expected: Message, actual: Message) -> Iterator[Loss]:
    """Yield the losses: the differences of `actual`, encoded by proton, from `expected`."""
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
