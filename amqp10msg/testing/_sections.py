"""Strategies for composites, sections and messages, drawn from their declarations."""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from amqp10msg.composite import COMPOSITES, Field, rows
from amqp10msg.delivery import NodeProperties, Source, StdDistMode, Target
from amqp10msg.message import Message
from amqp10msg.sections import (
    KINDS,
    AmqpSequence,
    AmqpValue,
    ApplicationProperties,
    Data,
    SectionKind,
)
from amqp10msg.testing._values import (
    SIMPLE,
    built,
    maps,
    nested_values,
    strategy_of,
    symbol_text,
    with_repr,
)
from amqp10msg.wire.primitives import INTEGERS, Described, Symbol, ULong


def annotation_maps(items: SearchStrategy[Any] | None = None) -> SearchStrategy[dict[Any, Any]]:
    """Dicts with the content of an annotations section (Part 3, 3.2.10).

    Example:
        >>> from hypothesis import given
        >>> from amqp10msg import Message
        >>> @given(annotation_maps())
        ... def test_they_arrive(drawn):
        ...     encoded = Message("", message_annotations=drawn).encode()
        ...     assert list(Message.decode(encoded).message_annotations) == list(drawn)
        >>> test_they_arrive()

    Args:
        items: a strategy for the values; None for any values.
    """
    keys = st.one_of(
        st.sampled_from(["x-opt-to", "x-opt-enqueued-time", "x-basic-key"]).map(Symbol),
        strategy_of("symbol"),
        strategy_of("ulong"),
    )
    drawn = nested_values(5) if items is None else items
    return st.dictionaries(keys, drawn, max_size=6)


def application_property_maps(
    items: SearchStrategy[Any] | None = None,
) -> SearchStrategy[dict[str, Any]]:
    """Dicts with the content of application properties (Part 3, 3.2.5).

    Example:
        >>> from hypothesis import given
        >>> from amqp10msg import Message
        >>> @given(application_property_maps())
        ... def test_they_arrive(drawn):
        ...     encoded = Message("", application_properties=drawn).encode()
        ...     assert list(Message.decode(encoded).application_properties) == list(drawn)
        >>> test_they_arrive()

    Args:
        items: a strategy for the values; None for simple values.
    """
    keys = st.sampled_from(["tenant", "x-retries", "größe"]) | st.text(max_size=20)
    return st.dictionaries(keys, SIMPLE if items is None else items, max_size=6)


def _restricted_maps(row: Field) -> SearchStrategy[Any] | None:
    """Maps for a field of the restricted type ``fields`` or ``filter-set``; None for others."""
    symbols = strategy_of("symbol")
    if row.restricted == "fields":
        return maps(symbols, nested_values(3), max_size=3)
    if row.restricted == "filter-set":
        predicates = st.builds(Described, strategy_of("ulong") | symbols, SIMPLE).filter(
            lambda drawn: drawn.descriptor not in COMPOSITES
        )
        return maps(symbols, predicates | st.none(), max_size=3)
    return None


def _plain(type_name: str) -> SearchStrategy[Any]:
    """Values of an AMQP type as attributes of a composite: symbols as str, integers as int."""
    drawn = strategy_of(type_name)
    if type_name in {"symbol", "char"}:
        return drawn.map(str)
    return drawn.map(int) if type_name in (*INTEGERS, "long") else drawn


def _field_value(row: Field, depth: int) -> SearchStrategy[Any]:
    """Values of a composite's field, with at most `depth` levels of composites below it."""
    drawn = _single_value(row, depth)
    return st.lists(drawn, max_size=4).map(tuple) if row.multiple else drawn


def _single_value(row: Field, depth: int) -> SearchStrategy[Any]:
    """Single values of a field, also if the field allows multiple values."""
    if row.enum is not None:
        return st.sampled_from(list(row.enum))
    if row.requires == "message-id":
        return strategy_of("ulong") | st.uuids() | st.binary(max_size=40) | st.text(max_size=40)
    if row.requires == "address":
        return st.text(max_size=40)
    if row.requires == "distribution-mode":
        return symbol_text()
    providers = [
        entry.cls
        for key, entry in COMPOSITES.items()
        if isinstance(key, int) and row.requires in entry.provides
    ]
    if row.requires and providers and depth:
        return st.one_of([_composite(cls, depth - 1) for cls in providers])
    if row.requires:
        # The library has no composite for the archetype (global-tx-id), or `depth` is 0: draw a
        # described value, as an extension would define it.
        extension = st.just(Symbol("com.example:extension")) | st.just(ULong(0x1234_0000_0001))
        return st.builds(Described, extension, st.lists(SIMPLE, max_size=2))
    if row.size is not None:
        return st.binary(max_size=row.size)
    restricted = _restricted_maps(row)
    return _plain(row.type) if restricted is None else restricted


@functools.cache
def _composite(cls: type, depth: int) -> SearchStrategy[Any]:
    always: dict[str, SearchStrategy[Any]] = {}
    sometimes: dict[str, SearchStrategy[Any]] = {}
    for row in rows(cls):
        # `built` omits each optional field in half of the cases, because most peers omit them.
        fields = always if row.mandatory or row.multiple else sometimes
        fields[row.name] = _field_value(row, depth)
    return built(cls, always, sometimes)


def composites(cls: type) -> SearchStrategy[Any]:
    """Objects of a composite's class. Fields have values that the composite's declaration allows.

    Example:
        >>> from hypothesis import given
        >>> from amqp10msg import Header
        >>> @given(composites(Header))
        ... def test_priority_is_a_ubyte(header):
        ...     assert 0 <= header.priority <= 255
        >>> test_priority_is_a_ubyte()

    Args:
        cls: a class of `amqp10msg.composite.COMPOSITES`, such as `Header` or an outcome.

    Raises:
        TypeError: the class is not a composite.
    """
    rows(cls)
    return with_repr(f"composites({cls.__name__})", _composite(cls, depth=3))


def _providing(archetype: str) -> SearchStrategy[Any]:
    """Composites that provide an archetype, such as ``outcome``."""
    entries = {entry.cls: entry for entry in COMPOSITES.values() if archetype in entry.provides}
    return st.one_of([_composite(cls, depth=2) for cls in entries])


def delivery_states() -> SearchStrategy[Any]:
    """Delivery states, terminal or not (Part 3, 3.4; Part 4, 4.5).

    Example:
        >>> from hypothesis import given
        >>> from amqp10msg import delivery
        >>> @given(delivery_states())
        ... def test_round_trip(state):
        ...     octets = delivery.encode(state)
        ...     assert octets == delivery.encode(delivery.decode(octets))
        >>> test_round_trip()
    """
    return with_repr("delivery_states()", _providing("delivery-state"))


def outcomes() -> SearchStrategy[Any]:
    """Terminal delivery states (Part 3, 3.4; `Declared` of Part 4, 4.5.5).

    Example:
        >>> from hypothesis import given
        >>> @given(outcomes())
        ... def test_it_is_terminal(outcome):
        ...     assert outcome.is_terminal
        >>> test_it_is_terminal()
    """
    return with_repr("outcomes()", _providing("outcome"))


@st.composite
def _terminus(draw: st.DrawFn, role: str | None) -> Source | Target:
    drawn: Source | Target = draw(_composite(Source, depth=2) | _composite(Target, depth=2))
    requests_node = role == ("receiver" if isinstance(drawn, Source) else "sender")
    policies = _providing("lifetime-policy")
    modes = st.lists(st.sampled_from(StdDistMode), max_size=2, unique=True).map(tuple)
    if drawn.dynamic:
        node_properties = drawn.dynamic_node_properties or {}
        node_properties.pop("lifetime-policy", None)
        node_properties.pop("supported-dist-modes", None)
        standard = draw(st.builds(NodeProperties, st.none() | policies, modes)).to_fields()
        drawn.dynamic_node_properties = {**node_properties, **standard} or None
        if role is not None:
            drawn.address = None if requests_node else drawn.address or draw(st.text(max_size=40))
    else:
        drawn.dynamic_node_properties = None
    if isinstance(drawn, Source):
        symbols = [e.symbol for e in COMPOSITES.values() if "outcome" in e.provides]
        extension = st.just("com.example:postponed:list")
        drawn.outcomes = draw(st.lists(st.sampled_from(symbols) | extension, max_size=4).map(tuple))
    return drawn


def termini(role: str | None = None) -> SearchStrategy[Any]:
    """Sources and targets that break no rule of Part 3, 3.5.

    Example:
        >>> from hypothesis import given
        >>> from amqp10msg.delivery import Source, check_source
        >>> @given(termini("sender").filter(lambda drawn: isinstance(drawn, Source)))
        ... def test_no_violations(source):
        ...     assert check_source(source, role="sender") == []
        >>> test_no_violations()

    Args:
        role: ``sender`` or ``receiver``: the end of the link that sends the terminus. None for
            termini that may break the rules that depend on the role.
    """
    return with_repr(f"termini({'' if role is None else repr(role)})", _terminus(role))


def bodies() -> SearchStrategy[Any]:
    """Bodies as in `Message.body`: a section, or a list of several sections of one kind.

    Example:
        >>> from hypothesis import given
        >>> from amqp10msg import Message
        >>> @given(bodies())
        ... def test_it_is_kept(body):
        ...     assert Message(body).body is body
        >>> test_it_is_kept()
    """
    return with_repr("bodies()", _bodies())


@functools.cache
def _bodies() -> SearchStrategy[Any]:
    data, sequence, value = map(_section_strategy, KINDS[5:8])
    return st.one_of(
        value,
        data,
        sequence,
        st.lists(data, min_size=2, max_size=3),
        st.lists(sequence, min_size=2, max_size=3),
    )


def _kind_of(kind: str | type | SectionKind) -> SectionKind:
    """Return the row of `KINDS` for the argument of `sections`."""
    for section_kind in KINDS:
        if kind in (section_kind, section_kind.name, section_kind.cls) or (
            kind == section_kind.attribute and section_kind.attribute != "body"
        ):
            return section_kind
    names = ", ".join(section_kind.name for section_kind in KINDS)
    raise ValueError(f"unknown section {kind!r}: use one of {names}")


def sections(kind: str | type | SectionKind) -> SearchStrategy[Any]:
    """Sections of one kind.

    Example:
        >>> from hypothesis import given
        >>> from amqp10msg import MessageAnnotations
        >>> @given(sections("message-annotations"))
        ... def test_it_is_one(section):
        ...     assert isinstance(section, MessageAnnotations)
        >>> test_it_is_one()

    Args:
        kind: the section's name in the specification, its attribute in `Message`, its class, or its
            row in `amqp10msg.sections.KINDS`.

    Raises:
        ValueError: there is no such section.
    """
    section_kind = _kind_of(kind)
    return with_repr(f"sections({section_kind.name!r})", _section_strategy(section_kind))


@functools.cache
def _section_strategy(section_kind: SectionKind) -> SearchStrategy[Any]:
    if section_kind.cls is Data:
        return strategy_of("binary").map(Data)
    if section_kind.cls is AmqpSequence:
        return st.lists(nested_values(8), max_size=4).map(AmqpSequence)
    if section_kind.cls is AmqpValue:
        return nested_values(10).map(AmqpValue)
    if section_kind.cls is ApplicationProperties:
        return application_property_maps().map(ApplicationProperties)
    if section_kind.source == "map":
        return annotation_maps().map(section_kind.cls)
    return _composite(section_kind.cls, depth=3)


def _resolve_conflicts(message: Message) -> Message:
    """Remove values from a message that are invalid together with its other sections."""
    properties = message.properties
    if properties is not None and properties.content_encoding is not None:
        body = message.body[0] if isinstance(message.body, list) else message.body
        if not isinstance(body, Data) or properties.content_encoding == "identity":
            properties.content_encoding = None
    if message.delivery_annotations is not None:
        message.delivery_annotations.pop("rejected", None)
    return message


def messages(**attributes: SearchStrategy[Any] | None) -> SearchStrategy[Message]:
    """Valid messages (Part 3, 3.2), with a body. Every other section is present or absent.

    `validate` may report warnings: most drawn annotation keys are reserved, and most content-types
    are not MIME types.

    Example:
        >>> from hypothesis import given, strategies as st
        >>> from amqp10msg import Message
        >>> @given(messages(header=st.none(), message_annotations=None))
        ... def test_round_trip(message):
        ...     assert message.header is message.message_annotations is None
        ...     assert Message.decode(message.encode()) == message
        >>> test_round_trip()

    Args:
        attributes: for an attribute of `Message`, a strategy that replaces the default strategy, or
            None to leave out the section. ``body=None`` draws messages without a body.

    Raises:
        TypeError: a message has no such attribute.
    """
    sometimes = {
        kind.attribute: _section_strategy(kind) for kind in KINDS if kind.attribute != "body"
    }
    # By default, draw no message_format: it is sent in the transfer frame, so a decoded message
    # would not be equal to the encoded message.
    names = ("body", *sometimes, "message_format")
    always = {"body": _bodies()}
    for name, strategy in attributes.items():
        if name not in names:
            raise TypeError(f"a message has no {name!r}: use {', '.join(names)}")
        sometimes.pop(name, None)
        always[name] = st.none() if strategy is None else strategy
    drawn = built(Message, always, sometimes)
    if "properties" not in attributes:  # do not change values from the user's strategies
        drawn = drawn.map(_resolve_conflicts)
    return with_repr(f"messages({', '.join(f'{name}=…' for name in attributes)})", drawn)
