"""Delivery states, termini, resuming, filters and nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amqp10msg import Array, Header, Message, ULong
from amqp10msg.delivery import (
    Accepted,
    Declared,
    DistributionNode,
    Modified,
    NodeProperties,
    Received,
    Rejected,
    Source,
    Target,
    TransactionalState,
    apply,
    bytes_from,
    check_declare,
    check_source,
    check_target,
    decode,
    encode,
    filters,
    octets_before,
    position,
    resume,
)
from amqp10msg.delivery.filters import (
    ApplicationPropertiesFilter,
    FilterSet,
    NoLocal,
    PropertiesFilter,
    Selector,
    SqlFilter,
    UnsupportedFilter,
)
from amqp10msg.delivery.node import (
    Capacity,
    DeadLetter,
    MemoryStore,
    OutgoingLink,
    Stored,
    StoreError,
    priority_level,
)
from tests.delivery.nodes import Clock, node_of, take
from tests.documented_raises.calls import Rows, received

NO_VALUE = object()
MESSAGE = Message("text")
DURABLE = Message("text", header=Header(durable=True))
# Lenient decoding (strict=False) leaves values of wrong types in fields: a string as
# delivery-count, a list as annotations, a string as delivery-failed and as section-number.
WRONG_COUNT = Message.decode(b"\x00\x53\x70\xc0\x08\x05\x40\x40\x40\x40\xa1\x01x", strict=False)
WRONG_ANNOTATIONS = decode(b"\x00\x53\x27\xc0\x04\x03\x40\x40\x45", strict=False)
WRONG_FLAG = decode(b"\x00\x53\x27\xc0\x04\x01\xa1\x01x", strict=False)
WRONG_PLACE = decode(b"\x00\x53\x23\xc0\x06\x02\xa1\x01x\x52\x01", strict=False)
TAG = b"tag"


class _NamesakeFilter(NoLocal):
    """A type of filter with the descriptors of another type."""


class FailingStore(MemoryStore):
    """A durable store that fails while `fails` is set."""

    durable = True

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails

    def load(self, node: str) -> Iterator[Stored]:  # noqa: ARG002  (the interface)
        self._check()
        return iter(())

    def quarantined(self, node: str | None = None) -> Any:  # noqa: ARG002  (the interface)
        self._check()
        return ()

    def commit(self) -> None:
        self._check()

    def _check(self) -> None:
        if self.fails:
            raise StoreError("the disk is full")


def _node(*messages: Message) -> tuple[DistributionNode, FailingStore]:
    """Return a node with durable messages, and its store, which fails from now on."""
    store = FailingStore()
    node = node_of(*messages, store=store)
    store.fails = True
    return node, store


def _deleted() -> DistributionNode:
    node = node_of()
    node.delete()
    return node


def _detached() -> OutgoingLink:
    link = node_of().attach()
    link.detach()
    return link


def _link(*messages: Message) -> tuple[OutgoingLink, FailingStore]:
    store = FailingStore()
    return node_of(*messages, store=store).attach(), store


def _settle_with_failing_store() -> None:
    link, store = _link(DURABLE)
    delivery = take(link)
    store.fails = True
    delivery.settle(Accepted())


def _next_with_failing_store() -> None:
    link, store = _link(DURABLE)
    store.fails = True
    link.next(settled=True)


def _detach_with_failing_store() -> None:
    store = FailingStore()
    node = node_of(DURABLE, store=store)
    link = node.attach(default_outcome=Rejected())
    take(link)
    store.fails = True
    link.detach()


def _detach_with_failing_dead_letter() -> None:
    def refuse(_: DeadLetter) -> None:
        raise KeyError("no such exchange")

    link = node_of(MESSAGE, dead_letter=refuse).attach(default_outcome=Rejected())
    take(link)
    link.detach()


def _delete_with_failing_store() -> None:
    node, _ = _node(DURABLE)
    node.delete()


def _expire_with_failing_store() -> None:
    clock, store = Clock(), FailingStore()
    node = node_of(Message("x", header=Header(durable=True, ttl=1)), clock=clock, store=store)
    clock.now, store.fails = 1_000, True
    node.expire()


def _too_many_keys() -> None:
    """Settle with annotations that would make the message undecodable."""
    keys: dict[Any, Any] = {ULong(key): None for key in range(4_096)}
    delivery = take(node_of(Message("x", message_annotations=keys)).attach())
    delivery.settle(Modified(message_annotations={ULong(5_000): None}))  # type: ignore[dict-item]


STATES: Rows = {
    "delivery.apply": {
        "ValueError": lambda: apply(Declared(b"t"), MESSAGE),
        "DecodeError": lambda: apply(Rejected(), b"\x3f"),
        "EncodeError": [
            lambda: apply(Rejected(), WRONG_COUNT),
            lambda: apply(WRONG_ANNOTATIONS, MESSAGE),
            lambda: apply(WRONG_FLAG, MESSAGE),
        ],
        "TypeError": [
            lambda: apply(7, MESSAGE),  # type: ignore[arg-type]
            lambda: apply(Rejected(), "text"),
            lambda: apply(Accepted(), "text"),
        ],
    },
    "delivery.decode": {
        "DecodeError": [
            lambda: decode(b""),
            lambda: decode(b"\x00\x53\x70\x45"),
            lambda: decode(b"\x00\x53\x23\x45"),
        ]
    },
    "delivery.encode": {
        "EncodeError": lambda: encode(received("x")),
        "TypeError": [lambda: encode(7), lambda: encode(Header())],
    },
    "delivery.NodeProperties.from_fields": {
        "DecodeError": [
            lambda: NodeProperties.from_fields({"lifetime-policy": 7}),
            lambda: NodeProperties.from_fields({"lifetime-policy": Accepted()}),
            lambda: NodeProperties.from_fields({"supported-dist-modes": 7}),
            lambda: NodeProperties.from_fields({"supported-dist-modes": Array("string", ["x"])}),
        ]
    },
    "delivery.check_declare": {
        "DecodeError": lambda: check_declare(b"\x3f"),
        "TypeError": [lambda: check_declare(7), lambda: check_declare(Source())],  # type: ignore[arg-type]
    },
    "delivery.check_source": {
        "DecodeError": lambda: check_source(b"\x3f"),
        "TypeError": [lambda: check_source(7), lambda: check_source(Target())],  # type: ignore[arg-type]
        "ValueError": lambda: check_source(Source(), role="broker"),
    },
    "delivery.check_target": {
        "DecodeError": lambda: check_target(b"\x3f"),
        "TypeError": [lambda: check_target(7), lambda: check_target(Source())],  # type: ignore[arg-type]
        "ValueError": lambda: check_target(Target(), role="broker"),
    },
    "delivery.position": {
        "ValueError": [lambda: position(b"", 1), lambda: position(b"", -1)],
        "DecodeError": lambda: position(b"\x3f"),
    },
    "delivery.octets_before": {
        "DecodeError": [
            lambda: octets_before(b"", Received(1, 0)),
            lambda: octets_before(MESSAGE, Received(0, 1_000)),
            lambda: octets_before(b"\x3f", Received(0, 1)),
            lambda: octets_before(b"", received("x")),
        ]
    },
    "delivery.bytes_from": {
        "DecodeError": [
            lambda: bytes_from(b"", Received(1, 0)),
            lambda: bytes_from(b"\x3f", Received(0, 1)),
        ]
    },
    "delivery.resume": {
        "EncodeError": [
            lambda: resume({"tag": None}, {}),  # type: ignore[dict-item]
            lambda: resume({b"t" * 33: None}, {}),
            lambda: resume({TAG: 7}, {}),
        ],
        "DecodeError": [
            lambda: resume({}, {"tag": None}),  # type: ignore[dict-item]
            lambda: resume({}, {TAG: 7}),
            lambda: resume({TAG: Received(1, 0)}, {TAG: Received(0, 999)}, messages={TAG: MESSAGE}),
            lambda: resume({}, {TAG: WRONG_PLACE}),
        ],
    },
    "delivery.Step.not_applied": {
        "ValueError": [
            lambda: resume({TAG: None}, {})[TAG].not_applied(Accepted()),
            lambda: resume({TAG: None}, {TAG: Accepted()})[TAG].not_applied(
                TransactionalState(b"t")
            ),
        ],
        "TypeError": lambda: resume({TAG: None}, {TAG: Accepted()})[TAG].not_applied(7),  # type: ignore[arg-type]
    },
}

FILTERS: Rows = {
    "delivery.filters.Filter.decode": {
        "DecodeError": [
            lambda: Selector.decode(b"\x40"),
            lambda: Selector.decode(b"\x3f"),
            lambda: Selector.decode(NoLocal().encode()),
        ],
        "TypeError": lambda: filters.Filter.decode(b"\x40"),
    },
    "delivery.filters.Filter.encode": {
        "EncodeError": lambda: ApplicationPropertiesFilter(
            {"k": NO_VALUE}, dialect="rabbitmq-4.3"
        ).encode()
    },
    "delivery.filters.Filter.matches": {
        "EvaluationError": [
            lambda: NoLocal().matches(MESSAGE),
            lambda: UnsupportedFilter(7, "unknown").matches(MESSAGE),
            lambda: SqlFilter("creation_time < UTC()").matches(MESSAGE),
        ],
        "TypeError": lambda: Selector("a = 1").matches(b""),  # type: ignore[arg-type]
    },
    "delivery.filters.FilterSet.encode": {
        "EncodeError": lambda: FilterSet(
            {"a": ApplicationPropertiesFilter({"k": NO_VALUE}, dialect="rabbitmq-4.3")}
        ).encode()
    },
    "delivery.filters.Selector": {
        "ExpressionError": [
            lambda: Selector("a ="),
            lambda: Selector("(" * 1_000),
            lambda: Selector("a" * 10_000),
        ]
    },
    "delivery.filters.SqlFilter": {
        "ExpressionError": [lambda: SqlFilter("a ="), lambda: SqlFilter("a LIKE 1")]
    },
    "delivery.filters.ApplicationPropertiesFilter": {
        "EncodeError": [
            lambda: ApplicationPropertiesFilter({7: 1}),  # type: ignore[dict-item]
            lambda: ApplicationPropertiesFilter({"k": [1]}),
        ]
    },
    "delivery.filters.PropertiesFilter": {
        "EncodeError": [
            lambda: PropertiesFilter({"colour": 1}),
            lambda: PropertiesFilter({"group-sequence": "x"}),
        ]
    },
    "delivery.filters.Filter.right_name": {
        "TypeError": lambda: Selector("a = 1").right_name(5),  # type: ignore[arg-type]
    },
    "delivery.filters.Filter.from_value": {
        "DecodeError": lambda: Selector.from_value(5, Selector.SYMBOL, filters.FilterOptions())
    },
    "delivery.filters.register": {
        "TypeError": lambda: filters.register(dict),
        "ValueError": lambda: filters.register(_NamesakeFilter),
    },
    "delivery.filters.parse": {
        "DecodeError": [
            lambda: filters.parse(b"\x3f"),
            lambda: filters.parse(b"\x54\x01"),
            lambda: filters.parse({"a": 7}),
            lambda: filters.parse(b"\x00\xa3\x1bapache.org:selector-filter:string\xa1\x01="),
        ],
        "TypeError": lambda: filters.parse("a = 1"),  # type: ignore[call-overload]
    },
}

NODES: Rows = {
    "delivery.DistributionNode": {
        "StoreError": lambda: node_of(store=FailingStore(fails=True)),
        "ValueError": [lambda: node_of(priorities=0), lambda: node_of(priorities=257)],
    },
    "delivery.DistributionNode.attach": {
        "NodeError": lambda: _deleted().attach(),
        "ValueError": [
            lambda: node_of().attach(mode="borrow"),
            lambda: node_of().attach(default_outcome=7),  # type: ignore[arg-type]
        ],
        "TypeError": [
            lambda: node_of().attach(filter=7),  # type: ignore[arg-type]
            lambda: node_of().attach(7),  # type: ignore[arg-type]
        ],
    },
    "delivery.DistributionNode.attach_incoming": {
        "NodeError": lambda: _deleted().attach_incoming()
    },
    "delivery.DistributionNode.commit": {"StoreError": _node()[0].commit},
    "delivery.DistributionNode.delete": {"StoreError": _delete_with_failing_store},
    "delivery.DistributionNode.expire": {"StoreError": _expire_with_failing_store},
    "delivery.DistributionNode.publish": {
        "NodeError": [
            lambda: node_of(capacity=Capacity(messages=0)).publish(MESSAGE),
            lambda: node_of().publish(DURABLE),
            lambda: _deleted().publish(MESSAGE),
        ],
        "DecodeError": lambda: node_of().publish(b"\x3f"),
        "EncodeError": lambda: node_of().publish(Message(NO_VALUE)),
        "TypeError": lambda: node_of().publish("text"),  # type: ignore[arg-type]
        "StoreError": lambda: _node()[0].publish(DURABLE),
    },
    "delivery.DistributionNode.quarantined": {"StoreError": lambda: _node()[0].quarantined},
    "delivery.DistributionNode.withdraw": {"StoreError": lambda: _node(DURABLE)[0].withdraw(1)},
    "delivery.node.Delivery.settle": {
        "ValueError": [
            lambda: take(node_of(MESSAGE).attach()).settle(7),  # type: ignore[arg-type]
            lambda: take(node_of(MESSAGE).attach()).settle(Declared(b"t")),  # type: ignore[arg-type]
        ],
        "OutcomeError": _too_many_keys,
        "EncodeError": lambda: take(node_of(MESSAGE).attach()).settle(
            Modified(message_annotations={"x-opt-k": NO_VALUE})
        ),
        "StoreError": _settle_with_failing_store,
    },
    "delivery.node.DeadLetter.annotated": {
        "DecodeError": DeadLetter(b"\x00\x53\x70\x40", "expired", "q", None, 0).annotated
    },
    "delivery.node.OutgoingLink.detach": {
        "StoreError": _detach_with_failing_store,
        "Exception": _detach_with_failing_dead_letter,
    },
    "delivery.node.OutgoingLink.next": {
        "NodeError": [lambda: _detached().next(), lambda: _deleted_link().next()],
        "StoreError": _next_with_failing_store,
    },
    "delivery.node.Store.commit": {"StoreError": FailingStore(fails=True).commit},
    "delivery.node.priority_level": {
        "ValueError": [lambda: priority_level(0, 0), lambda: priority_level(0, 257)]
    },
}


def _deleted_link() -> OutgoingLink:
    node = node_of()
    link = node.attach()
    node.delete()
    return link


ROWS: Rows = {**STATES, **FILTERS, **NODES}
