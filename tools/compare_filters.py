"""Compare filters with those of a broker, by random generation.

    python tools/compare_filters.py --kind application-properties --examples 1000
    python tools/compare_filters.py --kind sql --broker amqp://guest:guest@localhost:5672

RabbitMQ 4.1 and later has the property filters, RabbitMQ 4.2 and later the SQL ones, on streams;
RabbitMQ 4.0 answers with the filters, and applies none. The stream is made over AMQP 0-9-1, and
deleted at the end. For another broker, such as qpidd or ActiveMQ, give an empty queue with
``--queue``: it is browsed, and left with the messages.

A filter agrees if the broker delivers exactly the messages for which `matches` is true in the
dialect, or leaves the filter out of its answer where the library refuses it. A mismatch is
printed as the smallest filter that Hypothesis finds, with exit status 1; the exit status is 2 if
the broker does not apply filters of the kind.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pika
from filter_trees import NAMES, SQL_NAMES, Writer, conditions
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from proton import Link, Terminus, Timeout
from proton.reactor import ReceiverOption
from proton.utils import BlockingConnection, LinkDetached

from amqp10msg import (
    AmqpValue,
    Array,
    Char,
    Decimal64,
    Described,
    Float,
    Message,
    Properties,
    Symbol,
    Timestamp,
    UInt,
    ULong,
    decode_value,
    encode_value,
)
from amqp10msg.delivery.filters import (
    DIALECTS,
    RABBITMQ,
    ApplicationPropertiesFilter,
    EvaluationError,
    Filter,
    PropertiesFilter,
    Selector,
    SqlFilter,
    StreamOffset,
    parse,
)

MESSAGES = 120
UUID = uuid.UUID(bytes=b"0123456789abcdef")
VALUES: list[Any] = [
    *["", "a", "ab", "a\nb", "ab\n", "0123456789abcdef", "&a", "é"],
    *[b"", b"a", b"ab", b"\xff", b"a\xff", "é".encode(), Symbol("a"), Symbol("ab"), UUID],
    *[0, 1, 5, -1, 2**53 + 1, UInt(5), ULong(5), Timestamp(5), Char("a"), Float(0.5), 5.0, 0.5],
    *[True, False, None, math.nan, math.inf, 1e308, Decimal64.from_decimal("5")],
]
IDS: list[Any] = [None, "a", "ab", b"a", b"\xff", ULong(5), UUID, "0123456789abcdef"]
TEXTS = [None, "", "a", "ab", "a\nb"]


def messages(names: list[str]) -> list[Message]:
    """Return the messages to filter: the same ones in every run."""
    chosen = random.Random(5)
    made = []
    for number in range(MESSAGES):
        held = {name: chosen.choice(VALUES) for name in names if chosen.random() < 0.7}
        fields = Properties(
            message_id=chosen.choice(IDS),
            subject=chosen.choice(TEXTS),
            correlation_id=chosen.choice(IDS),
            content_type=chosen.choice([None, "a", "ab"]),
            creation_time=chosen.choice([None, 0, 5]),
            group_sequence=chosen.choice([None, 0, 5]),
        )
        made.append(Message(AmqpValue(number), properties=fields, application_properties=held))
    return made


# Filters, as what is described: the library may refuse them, and so may the broker.


def references(values: list[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy of reference values, some with modifiers."""
    affixes = st.builds(
        str.__add__, st.sampled_from(["&p:", "&s:", "&&", "&"]), st.text("aé\n", max_size=2)
    )
    compound = st.sampled_from([[], ["a"], {"a": 1}, Array("int", [5]), Described(Symbol("x"), 5)])
    return st.sampled_from(values) | affixes | compound


def property_filters() -> st.SearchStrategy[Described]:
    """Return a strategy of properties filters."""
    text = references(TEXTS)
    fields: dict[str, st.SearchStrategy[Any]] = {
        "message-id": references(IDS),
        "correlation-id": references(IDS),
        "subject": text,
        "content-type": st.sampled_from([None, Symbol("a")]),
        "creation-time": st.sampled_from([None, Timestamp(5)]),
        "group-sequence": st.sampled_from([None, UInt(5)]),
    }
    keyed = {Symbol(name): strategy for name, strategy in fields.items()}
    entries = st.fixed_dictionaries({}, optional=keyed).filter(bool)
    return entries.map(lambda one: Described(ULong(PropertiesFilter.CODE or 0), one))


def application_property_filters() -> st.SearchStrategy[Described]:
    """Return a strategy of application properties filters."""
    entries = st.dictionaries(st.sampled_from(["a", "b", "c"]), references(VALUES), min_size=1)
    return entries.map(lambda one: Described(ULong(ApplicationPropertiesFilter.CODE or 0), one))


def expressions(cls: type[SqlFilter | Selector]) -> st.SearchStrategy[Described]:
    """Return a strategy of expressions."""
    is_sql = cls is SqlFilter
    trees = conditions(SQL_NAMES if is_sql else NAMES, is_sql)

    def written(tree: Any, chosen: random.Random) -> Described:
        return Described(ULong(cls.CODE or 0), Writer(chosen.choice, sql=is_sql).text(tree))

    return st.builds(written, trees, st.randoms(use_true_random=False))


@attrs.frozen
class Kind:
    """A kind of filter.

    Attributes:
        drawn: returns a strategy of filters.
        names: application properties of the messages.
        nothing: a filter that no message passes.
        name: the name in the filter-set; RabbitMQ reads SQL filters and selectors under these.
    """

    drawn: Callable[[], st.SearchStrategy[Described]]
    names: list[str]
    nothing: Filter
    name: str = "compared"


KINDS: dict[str, Kind] = {
    "properties": Kind(property_filters, ["a"], PropertiesFilter({"subject": "nothing"})),
    "application-properties": Kind(
        application_property_filters,
        ["a", "b", "c"],
        ApplicationPropertiesFilter({"a": "nothing"}),
    ),
    "sql": Kind(
        lambda: expressions(SqlFilter), SQL_NAMES, SqlFilter("a = 'nothing'"), "sql-filter"
    ),
    "selector": Kind(
        lambda: expressions(Selector), NAMES, Selector("a = 'nothing'"), "jms-selector"
    ),
}


# The broker.


@attrs.frozen
class Asking(ReceiverOption):
    """Options of a receiver: its filters, encoded, and to browse."""

    filters: bytes

    def apply(self, receiver: Link) -> None:
        """Set the source of a receiver."""
        receiver.source.filter.decode(self.filters)
        receiver.source.distribution_mode = Terminus.DIST_MODE_COPY


@contextmanager
def stream(broker: str) -> Iterator[str]:
    """Make a stream over AMQP 0-9-1, and delete it at the end; yields its name."""
    name = f"compare-filters-{uuid.uuid4()}"
    with pika.BlockingConnection(pika.URLParameters(broker)) as connection:
        channel = connection.channel()
        channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    try:
        yield name
    finally:
        with pika.BlockingConnection(pika.URLParameters(broker)) as connection:
            connection.channel().queue_delete(name)


def delivered(
    broker: Any,
    address: str,
    name: str,
    asked: Described,
    from_start: bool,
    wait: float,
) -> set[int] | None:
    """Return the numbers of the messages that the broker delivers; None if it drops the filter.

    A stream answers to drain before it has read its log: the end is `wait` seconds without one.
    """
    filters = {Symbol(name): asked}
    if from_start:
        filters[Symbol(StreamOffset.SYMBOL)] = StreamOffset("first").to_described()
    option = Asking(encode_value(filters))
    try:
        receiver = broker.create_receiver(
            address, credit=2 * MESSAGES, name=str(uuid.uuid4()), options=option
        )
    except LinkDetached:  # a broker may refuse the link instead
        return None
    try:
        answer = decode_value(receiver.link.remote_source.filter.encode() or b"\x40")
        if name not in {str(one) for one in answer or {}}:
            return None
        numbers = set()
        while True:
            try:
                numbers.add(int(receiver.receive(timeout=wait).body))
            except Timeout:
                return numbers
    finally:
        receiver.close()


def predicted(asked: Described, sent: list[Message], dialect: Any) -> set[int] | str | None:
    """Return the numbers of the messages that pass; None if the filter is refused.

    A text is returned if the session is predicted to end: there is nothing to compare.
    """
    filters = parse({"compared": asked}, strict=False, limits=RABBITMQ, dialect=dialect)
    if filters.unsupported:
        return None
    try:
        return {number for number, message in enumerate(sent) if filters.matches(message)}
    except EvaluationError as error:
        return str(error)


def differences(sent: list[Message], found: set[int] | None, wanted: set[int] | None) -> str:
    """Say how the broker and the library differ."""
    if found is None or wanted is None:
        return f"broker: {'refused' if found is None else 'accepted'}, predicted: " + (
            "refused" if wanted is None else "accepted"
        )
    lines = [
        f"{'only the broker delivers' if number in found else 'only predicted'}: "
        f"{sent[number].properties} {sent[number].application_properties}"
        for number in sorted(found ^ wanted)[:3]
    ]
    return "\n".join([f"{len(found ^ wanted)} of {len(sent)} messages", *lines])


def compare(
    kind: Kind, examples: int, first: int, check: Callable[[Described], str]
) -> tuple[int, str]:
    """Draw filters until one differs; return how many were drawn, and the smallest difference."""
    drawn, problem = 0, ""

    @seed(first)
    @settings(
        max_examples=examples,
        database=None,
        report_multiple_bugs=False,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(kind.drawn())
    def differ(asked: Described) -> None:
        nonlocal drawn, problem
        drawn += 1
        found = check(asked)
        if found:
            problem = f"{asked.value!r}\n{found}"
            raise AssertionError(found)

    try:
        differ()
    except AssertionError:
        return drawn, problem
    return drawn, ""


def main() -> int:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--broker", default="amqp://guest:guest@localhost:5672", help="its URL")
    parser.add_argument("--kind", choices=list(KINDS), default="application-properties")
    parser.add_argument("--examples", type=int, default=300, help="filters to draw")
    parser.add_argument("--dialect", choices=DIALECTS.names, default="rabbitmq-4.3")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--wait", type=float, default=0.3, help="seconds until no more messages come"
    )
    parser.add_argument("--queue", help="an empty queue of another broker than RabbitMQ")
    given_ = parser.parse_args()
    kind = KINDS[given_.kind]
    sent = messages(kind.names)

    @contextmanager
    def address() -> Iterator[str]:
        if given_.queue:
            yield given_.queue
        else:
            with stream(given_.broker) as name:
                yield f"/queues/{urllib.parse.quote(name, safe='')}"

    with address() as place:
        connection: Any = BlockingConnection(given_.broker, timeout=30)
        sender = connection.create_sender(place)
        for number, message in enumerate(sent):
            delivery = sender.link.delivery(str(number))
            sender.link.stream(message.encode())
            sender.link.advance()
            connection.wait(lambda made=delivery: made.settled, msg="publishing")

        def passed(asked: Described, wait: float) -> set[int] | None:
            return delivered(connection, place, kind.name, asked, not given_.queue, wait)

        if passed(kind.nothing.to_described(), 10 * given_.wait) != set():
            print("the broker does not apply filters of this kind")
            return 2

        def check(asked: Described) -> str:
            wanted = predicted(asked, sent, given_.dialect)
            if isinstance(wanted, str):
                return ""
            found = passed(asked, given_.wait)
            if found != wanted:  # perhaps it was late
                found = passed(asked, 10 * given_.wait)
            return "" if found == wanted else differences(sent, found, wanted)

        drawn, problem = compare(kind, given_.examples, given_.seed, check)
        connection.close()
    print(f"{drawn} filters on {len(sent)} messages: {'they differ' if problem else 'they agree'}")
    if problem:
        print(problem)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
