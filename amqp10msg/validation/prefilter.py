"""Find out quickly which rules a decoded message may violate, by the suspicions of the rules.

`columns` does the same for a batch of messages. `validation.suspicion` explains suspicions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from amqp10msg.sections import BODY_KINDS, SPEC_OF
from amqp10msg.sections.parts import MessageMap
from amqp10msg.validation._table import RULES
from amqp10msg.validation.rules import Rule
from amqp10msg.validation.suspicion import (
    ANNOTATIONS,
    AnnotationKey,
    AnnotationType,
    BodyKind,
    FieldValue,
    Suspicion,
    ValueType,
)
from amqp10msg.wire import kernel
from amqp10msg.wire.kernel.codes import KINDS, TYPE_NAMES
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.primitives import AmqpMap, Symbol

# A test that returns whether a value is usual, and the ids of the rules that unusual values may
# violate.
_FieldTest: TypeAlias = tuple[Callable[[Any], bool], tuple[str, ...]]
_SuspicionT = TypeVar("_SuspicionT", bound=Suspicion)


class Suspected(NamedTuple):
    """A suspicion, and the ids of all rules with this suspicion: one test serves all of them."""

    suspicion: Any
    rules: tuple[str, ...]


def _group_by_suspicion(rules: Iterable[Rule], kind: type[_SuspicionT]) -> tuple[Suspected, ...]:
    """Return the distinct suspicions of the class `kind`, each with the ids of its rules."""
    groups: dict[_SuspicionT, list[str]] = {}
    for rule in rules:
        if isinstance(rule.suspicion, kind):
            groups.setdefault(rule.suspicion, []).append(rule.id)
    return tuple(Suspected(suspicion, tuple(names)) for suspicion, names in groups.items())


#: Rules whose violations decoding does not detect, in the order of the table.
UNENFORCED: Final = tuple(
    rule for rule in RULES.values() if rule.check is not None and not rule.refused
)
#: Rules of `UNENFORCED` without a suspicion, which are checked on every message.
ALWAYS_CHECKED: Final = tuple(rule for rule in UNENFORCED if rule.suspicion is None)
# The suspicions of `UNENFORCED` by class, each with the ids of its rules.
FIELD_SUSPICIONS: Final = _group_by_suspicion(UNENFORCED, FieldValue)
BODY_SUSPICIONS: Final = _group_by_suspicion(UNENFORCED, BodyKind)
KEY_SUSPICIONS: Final = _group_by_suspicion(UNENFORCED, AnnotationKey)
VALUE_SUSPICIONS: Final = _group_by_suspicion(UNENFORCED, ValueType)
ANNOTATION_TYPE_SUSPICIONS: Final = _group_by_suspicion(UNENFORCED, AnnotationType)

# `narrow` is useful for messages with one damaged field. More sections than this indicate other
# damage: then all rules are checked.
_MAX_NARROWED_SECTIONS = 16
#: The wire name of each body section, by its class.
_BODY_NAMES: Final[dict[type, str]] = {kind.cls: kind.name for kind in BODY_KINDS}


def _classes_of_types(names: tuple[str, ...]) -> frozenset[type]:
    """Return the Python classes of decoded values of the AMQP types `names`."""
    classes = {cls for cls, kind in KINDS.items() if TYPE_NAMES.get(kind) in names}
    return frozenset(classes | {AmqpMap} if "map" in names else classes)


# For each map section, as an attribute of `Message`: the Python classes of values that may violate
# rules, and the ids of these rules. From `VALUE_SUSPICIONS`.
_SUSPECT_CLASSES: Final = [
    (
        section,
        [
            (_classes_of_types(suspicion.types), rules)
            for suspicion, rules in VALUE_SUSPICIONS
            if section in suspicion.sections
        ],
    )
    for section in dict.fromkeys(
        name for group in VALUE_SUSPICIONS for name in group.suspicion.sections
    )
]
#: For each suspicion of `BODY_SUSPICIONS`, its usual kinds, its fields, and the ids of its rules.
_BODY_TESTS: Final = tuple(
    ((group.suspicion.usual, group.suspicion.fields), group.rules) for group in BODY_SUSPICIONS
)
# For each key in `ANNOTATION_TYPE_SUSPICIONS`: the Python classes of usual values, and the ids of
# the rules that a value of another class may violate.
_ANNOTATION_CLASSES: Final = tuple(
    (Symbol(key), _classes_of_types(group.suspicion.usual), group.rules)
    for group in ANNOTATION_TYPE_SUSPICIONS
    for key in group.suspicion.keys
)
# The fields of the properties that suspicions read, with the tests of each field.
_FIELDS: Final[tuple[tuple[str, tuple[_FieldTest, ...]], ...]] = tuple(
    (
        name,
        tuple(
            (group.suspicion.is_usual, group.rules)
            for group in FIELD_SUSPICIONS
            if group.suspicion.field == name
        ),
    )
    for name in dict.fromkeys(
        (
            *(group.suspicion.field for group in FIELD_SUSPICIONS),
            *(name for group in BODY_SUSPICIONS for name in group.suspicion.fields),
        )
    )
)


class _Decoded:
    """A decoded message, without the checks of `Message`."""

    __slots__ = (
        "_lenient",
        "_wire",
        "application_properties",
        "body",
        "delivery_annotations",
        "footer",
        "header",
        "message_annotations",
        "message_format",
        "properties",
    )
    body: Any


def suspected(
    data: bytes, limits: Limits, known_keys: Mapping[str, tuple[str, ...]]
) -> set[str] | None:
    """Return the ids of the rules that a message may violate; None if it cannot be decoded.

    Rules of `ALWAYS_CHECKED` are not included.

    Args:
        data: the encoded message, within the size limit.
        limits: the limits of decoding.
        known_keys: the reserved annotation keys that the profile defines, by section name.
    """
    try:
        message: Any = kernel.Reader(data, 0, limits).read_message(_Decoded, 0)
    except kernel.READ_FAULTS:
        return None
    return _suspected_rules(message, known_keys)


def narrow(view: MessageMap, known_keys: Mapping[str, tuple[str, ...]]) -> None:
    """Set `view.doubtful` to the sections of a damaged message that may violate rules.

    `view.doubtful` stays None, which means all sections, if that cannot be determined.

    Args:
        view: the map of a message that cannot be decoded.
        known_keys: the reserved annotation keys that the profile defines, by section name.
    """
    if len(view.sections) > _MAX_NARROWED_SECTIONS:
        return
    message = _Decoded()
    for name in _Decoded.__slots__:
        setattr(message, name, None)
    body: list[Any] = []
    damaged = set()
    is_body_damaged = False
    # A single reader applies the limits to the sum of all sections.
    reader = kernel.Reader(view.data, 0, view.limits)
    for section in view.sections:
        attribute = section.kind.attribute
        reader.pos = section.content
        reader.end = section.end
        reader.depth = view.limits.depth
        try:
            value = reader.section(SPEC_OF[section.kind.code])
        except kernel.READ_FAULTS:
            value = None
        if value is None or reader.pos != section.end:
            damaged.add(section.offset)
            is_body_damaged = is_body_damaged or attribute == "body"
        elif attribute == "body":
            body.append(value)
        elif getattr(message, attribute) is None:
            setattr(message, attribute, value)
        else:
            return
    if len(set(map(type, body))) > 1:
        return
    message.body = body or None
    # The rule body-missing is checked in any case: it does not read the contents of a section.
    if _suspected_rules(message, known_keys) <= {"body-missing"}:
        # Some rules about the properties depend on the kind of body, which a damaged body may hide.
        view.doubtful = [
            section
            for section in view.sections
            if section.offset in damaged
            or (is_body_damaged and section.kind.attribute == "properties")
        ]


def _suspected_rules(message: Any, known_keys: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Return the ids of the rules whose suspicion is true for a decoded message."""
    suspects: set[str] = set()
    set_fields = []
    properties = message.properties
    if properties is not None:
        for name, tests in _FIELDS:
            value = getattr(properties, name)
            if value is not None:
                set_fields.append(name)
                for is_usual, rules in tests:
                    if not is_usual(value):
                        suspects.update(rules)
    body = message.body
    kind = None if body is None else _BODY_NAMES[type(body[0] if type(body) is list else body)]
    for (usual, fields), rules in _BODY_TESTS:
        if kind not in usual and (not fields or any(name in set_fields for name in fields)):
            suspects.update(rules)
    for attribute, name in ANNOTATIONS.items():
        for key in getattr(message, attribute) or ():
            is_symbol = type(key) is Symbol
            if is_symbol and key.startswith("x-"):
                continue
            # The reserved keys that profiles define are all symbols.
            reserved_keys = known_keys.get(name, ()) if is_symbol else ()
            for suspicion, rules in KEY_SUSPICIONS:
                if not suspicion.is_usual(str(key), reserved_keys):
                    suspects.update(rules)
    annotations = message.message_annotations
    if annotations:
        # The kernel returns an `AmqpMap` if a dict cannot hold the keys, such as equal keys of two
        # types.
        if type(annotations) is AmqpMap:
            annotations = dict(annotations.pairs)
        for key, usual, rules in _ANNOTATION_CLASSES:
            if key in annotations and type(annotations[key]) not in usual:
                suspects.update(rules)
    for attribute, class_tests in _SUSPECT_CLASSES:
        section = getattr(message, attribute)
        if section:
            types = set(map(type, section.values()))
            for classes, rules in class_tests:
                if not classes.isdisjoint(types):
                    suspects.update(rules)
    return suspects
