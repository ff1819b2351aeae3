# cython: annotation_typing=False, infer_types=True
"""Find out quickly which rules a decoded message may violate, by the suspicions of the rules.

`columns` does the same for a batch of messages. `validation.suspicion` explains suspicions.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from amqp10msg.sections import BODY_KINDS, SPEC_BY_CODE
from amqp10msg.sections import KINDS as SECTION_KINDS
from amqp10msg.sections.parts import MessageMap
from amqp10msg.validation._table import RULES
from amqp10msg.validation.rules import Rule
from amqp10msg.validation.suspicion import (
    ANNOTATION_SECTION_NAMES,
    AnnotationKey,
    AnnotationType,
    BodyKind,
    FieldValue,
    Suspicion,
    ValueType,
)
from amqp10msg.wire.kernel.codes import (
    KIND_OF_PYTHON_TYPE,
    PLACE_BODY,
    PLACE_FOOTER,
    TYPE_NAME_OF_KIND,
)
from amqp10msg.wire.kernel.messages import Reader
from amqp10msg.wire.kernel.value_reader import READ_FAULTS
from amqp10msg.wire.limits import Limits
from amqp10msg.wire.primitives import AmqpMap, Symbol

_SuspicionT = TypeVar("_SuspicionT", bound=Suspicion)


class SuspicionWithRules(NamedTuple):
    """A suspicion, and the ids of all rules with this suspicion: one test serves all of them."""

    suspicion: Any
    rules: tuple[str, ...]


def _group_by_suspicion(
    rules: Iterable[Rule], kind: type[_SuspicionT]
) -> tuple[SuspicionWithRules, ...]:
    """Return the distinct suspicions of the class `kind`, each with the ids of its rules."""
    groups: dict[_SuspicionT, list[str]] = {}
    for rule in rules:
        if isinstance(rule.suspicion, kind):
            groups.setdefault(rule.suspicion, []).append(rule.id)
    return tuple(
        [SuspicionWithRules(suspicion, tuple(names)) for suspicion, names in groups.items()]
    )


#: Rules whose violations decoding does not detect, in the order of `RULES`.
RULES_NOT_CHECKED_BY_DECODING: Final = tuple(
    [rule for rule in RULES.values() if rule.check is not None and not rule.refused]
)
#: Rules of `RULES_NOT_CHECKED_BY_DECODING` without a suspicion, which are checked on every message.
ALWAYS_CHECKED: Final = tuple(
    [rule for rule in RULES_NOT_CHECKED_BY_DECODING if rule.suspicion is None]
)
# The suspicions of `RULES_NOT_CHECKED_BY_DECODING` by class, each with the ids of its rules.
FIELD_SUSPICIONS: Final = _group_by_suspicion(RULES_NOT_CHECKED_BY_DECODING, FieldValue)
BODY_SUSPICIONS: Final = _group_by_suspicion(RULES_NOT_CHECKED_BY_DECODING, BodyKind)
ANNOTATION_KEY_SUSPICIONS: Final = _group_by_suspicion(RULES_NOT_CHECKED_BY_DECODING, AnnotationKey)
VALUE_SUSPICIONS: Final = _group_by_suspicion(RULES_NOT_CHECKED_BY_DECODING, ValueType)
ANNOTATION_TYPE_SUSPICIONS: Final = _group_by_suspicion(
    RULES_NOT_CHECKED_BY_DECODING, AnnotationType
)

# Maximum number of sections for which `narrow` selects rules. It is meant for messages with one
# damaged field; a message with more sections is damaged in another way, and checked by all rules.
_MAX_NARROWED_SECTIONS = 16
#: The index of each section in the tuple of a message's sections, by attribute of `Message`.
_PLACE_BY_ATTRIBUTE: Final = {kind.attribute: kind.order for kind in SECTION_KINDS}
_PROPERTIES_PLACE: Final = _PLACE_BY_ATTRIBUTE["properties"]
_MESSAGE_ANNOTATIONS_PLACE: Final = _PLACE_BY_ATTRIBUTE["message_annotations"]
#: The kind of body, as rules name it, by the class of the body sections; None without a body.
_BODY_KIND_BY_CLASS: Final[dict[type, str | None]] = {
    type(None): None,
    **{kind.cls: kind.name for kind in BODY_KINDS},
}
_NO_RULE_IDS: Final[frozenset[str]] = frozenset()


def _classes_of_types(names: tuple[str, ...]) -> frozenset[type]:
    """Return the Python classes of decoded values of the AMQP types `names`."""
    classes = {
        cls for cls, kind in KIND_OF_PYTHON_TYPE.items() if TYPE_NAME_OF_KIND.get(kind) in names
    }
    return frozenset(classes | {AmqpMap} if "map" in names else classes)


class Screen:
    """The suspicions of the rules of a profile, as tables by which `suspected` tests a message.

    Attributes:
        fields: for each test of a field of the properties, its name, the function that returns
            whether a value is usual, and the ids of the rules that other values may violate.
        bodies: for each class of body sections, pairs of field names and rule ids. A message with
            such a body may violate these rules if at least one of the fields is set. If there are
            no field names, every such message may violate them.
        keys: for each section with annotation keys, its place in a message, and the reserved keys
            that the profile defines.
        key_tests: for each test of an annotation key, the function that returns whether a key is
            usual, and the ids of the rules that other keys may violate.
        annotations: for each annotation key, the classes of its usual values, and the ids of the
            rules that a value of another class may violate.
        values: for each map section, its place in a message, the classes of values that may violate
            rules, and the ids of these rules.
        is_partial: whether the profile has rules without a suspicion, which are not in the tables.
    """

    def __init__(self, rules: Container[str], known_keys: Mapping[str, tuple[str, ...]]) -> None:
        """Select the suspicions of some rules.

        Args:
            rules: the ids of the rules of a profile.
            known_keys: the reserved annotation keys that the profile defines, by section name.
        """
        groups = {
            kind: [
                (group.suspicion, ids)
                for group in suspicions
                if (ids := tuple([name for name in group.rules if name in rules]))
            ]
            for kind, suspicions in _SUSPICIONS_BY_CLASS.items()
        }
        self.is_partial = bool([rule for rule in ALWAYS_CHECKED if rule.id in rules])
        self.fields = tuple([(test.field, test.is_usual, ids) for test, ids in groups[FieldValue]])
        self.bodies = {
            cls: tuple(
                [(test.fields, ids) for test, ids in groups[BodyKind] if kind not in test.usual]
            )
            for cls, kind in _BODY_KIND_BY_CLASS.items()
        }
        self.key_tests = tuple([(test.is_usual, ids) for test, ids in groups[AnnotationKey]])
        self.keys = tuple(
            [
                (_PLACE_BY_ATTRIBUTE[attribute], known_keys.get(name, ()))
                for attribute, name in (ANNOTATION_SECTION_NAMES.items() if self.key_tests else ())
            ]
        )
        self.annotations = tuple(
            [
                (Symbol(key), _classes_of_types(test.usual), ids)
                for test, ids in groups[AnnotationType]
                for key in test.keys
            ]
        )
        self.values = tuple(
            [
                (_PLACE_BY_ATTRIBUTE[section], _classes_of_types(test.types), ids)
                for test, ids in groups[ValueType]
                for section in test.sections
            ]
        )

    def rules_of(self, sections: Any) -> Collection[str]:
        """Return the ids of the rules whose suspicion is true for the sections of a message.

        Args:
            sections: the sections in the order of their places; None for a missing section.
        """
        suspects: Any = None
        properties = sections[_PROPERTIES_PLACE]
        if properties is not None:
            for field, is_usual, rules in self.fields:
                value = getattr(properties, field)
                if value is not None and not is_usual(value):
                    suspects = _add_rule_ids(suspects, rules)
        body = sections[PLACE_BODY]
        for fields, rules in self.bodies[type(body[0] if type(body) is list else body)]:
            if not fields or has_any_field(properties, fields):
                suspects = _add_rule_ids(suspects, rules)
        for place, known_keys in self.keys:
            section = sections[place]
            if section is not None:
                for key in section:
                    is_symbol = type(key) is Symbol
                    if is_symbol and key.startswith("x-"):
                        continue
                    # The reserved keys that profiles define are all symbols.
                    reserved_keys = known_keys if is_symbol else ()
                    for is_usual, rules in self.key_tests:
                        if not is_usual(str(key), reserved_keys):
                            suspects = _add_rule_ids(suspects, rules)
        if self.annotations:
            annotations = sections[_MESSAGE_ANNOTATIONS_PLACE]
            # The kernel returns an `AmqpMap` if a dict cannot hold the keys, such as equal keys of
            # two types.
            if type(annotations) is AmqpMap:
                annotations = dict(annotations.pairs)
            for key, usual, rules in self.annotations if annotations else ():
                if key in annotations and type(annotations[key]) not in usual:
                    suspects = _add_rule_ids(suspects, rules)
        for place, classes, rules in self.values:
            section = sections[place]
            if section is not None and not classes.isdisjoint(map(type, section.values())):
                suspects = _add_rule_ids(suspects, rules)
        return _NO_RULE_IDS if suspects is None else suspects


_SUSPICIONS_BY_CLASS: Final[dict[type, tuple[SuspicionWithRules, ...]]] = {
    FieldValue: FIELD_SUSPICIONS,
    BodyKind: BODY_SUSPICIONS,
    AnnotationKey: ANNOTATION_KEY_SUSPICIONS,
    ValueType: VALUE_SUSPICIONS,
    AnnotationType: ANNOTATION_TYPE_SUSPICIONS,
}


def _add_rule_ids(suspects: Any, rules: tuple[str, ...]) -> Any:
    """Add `rules` to the set `suspects`, which is created if it is None; return the set.

    Most messages are not suspected, and therefore need no set.
    """
    if suspects is None:
        return set(rules)
    suspects.update(rules)
    return suspects


def has_any_field(properties: Any, fields: tuple[str, ...]) -> bool:
    """Return whether one of these fields of the properties is set."""
    if properties is not None:
        for field in fields:
            if getattr(properties, field) is not None:
                return True
    return False


def suspected(data: bytes, limits: Limits, screen: Screen) -> Collection[str] | None:
    """Return the ids of the rules that a message may violate; None if it cannot be decoded.

    Rules of `ALWAYS_CHECKED` are not included.

    Args:
        data: the encoded message, which must not exceed the size limit.
        limits: the limits of decoding.
        screen: the suspicions of the profile.
    """
    reader = Reader.__new__(Reader)
    reader.begin(data, 0, limits)
    try:
        sections = reader.read_message(None, 0)
    except READ_FAULTS:
        return None
    return screen.rules_of(sections)


def narrow(view: MessageMap, screen: Screen) -> None:
    """Set `view.doubtful` to the sections of a damaged message that may violate rules.

    `view.doubtful` stays None, which means all sections, if that cannot be determined.

    Args:
        view: the map of a message that cannot be decoded.
        screen: the suspicions of the profile.
    """
    if len(view.sections) > _MAX_NARROWED_SECTIONS:
        return
    sections: list[Any] = [None] * (PLACE_FOOTER + 1)
    body: list[Any] = []
    damaged = set()
    is_body_damaged = False
    # Read all sections with the same reader, so that the limits apply to their sum.
    reader = Reader(view.data, 0, view.limits)
    for section in view.sections:
        place = section.kind.order
        reader.pos = section.content
        reader.end = section.end
        reader.depth = view.limits.depth
        try:
            value = reader.section(SPEC_BY_CODE[section.kind.code])
        except READ_FAULTS:
            value = None
        if value is None or reader.pos != section.end:
            damaged.add(section.offset)
            is_body_damaged = is_body_damaged or place == PLACE_BODY
        elif place == PLACE_BODY:
            body.append(value)
        elif sections[place] is None:
            sections[place] = value
        else:
            return
    if len(set(map(type, body))) > 1:
        return
    sections[PLACE_BODY] = body or None
    # The rule body-missing does not depend on `doubtful`: it does not read contents of sections.
    if set(screen.rules_of(tuple(sections))) <= {"body-missing"}:
        # Some rules about the properties depend on the kind of body, which a damaged body may hide.
        view.doubtful = [
            section
            for section in view.sections
            if section.offset in damaged
            or (is_body_damaged and section.kind.attribute == "properties")
        ]
