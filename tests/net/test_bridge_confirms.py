"""`Unconfirmed`: finds published messages by delivery-tag and by content, with little work."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg.net.ends.confirms import Unconfirmed
from amqp10msg.net.ends.terms import ACCEPTED, Outcome, Outgoing, SourceDelivery

#: Exchange, routing-key, header, body: few of each, so that messages are alike.
CONTENTS = st.tuples(*(st.sampled_from(of) for of in ("ef", "kl", (b"h", b"i"), (b"x", b"y"))))
STEPS = st.one_of(
    st.tuples(st.just("add"), CONTENTS),
    st.tuples(st.just("give back"), CONTENTS),
    st.tuples(st.just("confirm"), st.integers(0, 12), st.booleans(), st.booleans()),
)


@attrs.define
class Plain:
    """A plain model of `Unconfirmed` that searches all messages."""

    sent: dict[int, tuple[SourceDelivery, Outgoing]] = attrs.Factory(dict)
    returned: dict[int, Outcome] = attrs.Factory(dict)
    published: int = 0

    def add(self, delivery: SourceDelivery, outgoing: Outgoing) -> None:
        self.published += 1
        self.sent[self.published] = delivery, outgoing

    def add_returned(
        self, exchange: str, key: str, header: bytes, body: bytes, outcome: Outcome
    ) -> None:
        alike = [
            (one.content_header != header, tag)
            for tag, (_, one) in self.sent.items()
            if tag not in self.returned
            and (exchange, key, body) == (one.exchange, one.routing_key, one.octets)
        ]
        if alike:
            self.returned[min(alike)[1]] = outcome

    def confirm(
        self, tag: int, *, multiple: bool, accepted: bool
    ) -> list[tuple[SourceDelivery, Outcome]]:
        tags = [one for one in self.sent if one == tag or (multiple and (not tag or one < tag))]
        other = ACCEPTED if accepted else Outcome("nacked")
        return [(self.sent.pop(one)[0], self.returned.pop(one, other)) for one in tags]


@given(st.lists(STEPS, max_size=40))
def test_confirms_and_returns_match_a_plain_model(steps: list[tuple[object, ...]]) -> None:
    quick, plain = Unconfirmed(), Plain()
    for number, (what, *given_) in enumerate(steps):
        match what, given_:
            case "add", [(str(exchange), str(key), bytes(header), bytes(body))]:
                delivery = SourceDelivery(body)
                for one in (quick, plain):
                    one.add(delivery, Outgoing(body, header, exchange, key))
            case "give back", [(str(exchange), str(key), bytes(header), bytes(body))]:
                for one in (quick, plain):
                    one.add_returned(exchange, key, header, body, Outcome("returned", str(number)))
            case "confirm", [int(tag), bool(multiple), bool(accepted)]:
                expected = plain.confirm(tag, multiple=multiple, accepted=accepted)
                assert expected == [*quick.confirm(tag, multiple=multiple, accepted=accepted)]
        assert len(plain.sent) == len(quick)


class Counting(bytes):
    """Bytes that count how often they are hashed or compared."""

    looks = 0

    def __eq__(self, other: object) -> bool:
        Counting.looks += 1
        return bytes.__eq__(self, other)

    def __hash__(self) -> int:
        Counting.looks += 1
        return bytes.__hash__(self)


def test_work_per_return_does_not_grow_with_the_window() -> None:
    looks = {}
    for window in (100, 1_000):
        sent = Unconfirmed()
        for number in range(window):
            sent.add(SourceDelivery(b""), Outgoing(Counting(b"%d" % number), b"h", "", "q"))
        Counting.looks = 0
        for number in range(1_000):  # some that were sent, and some that nobody sent
            sent.add_returned("", "q", b"h", b"%d" % (number * 3), Outcome("returned"))
        for _ in sent.confirm(0, multiple=True, accepted=True):
            pass
        looks[window] = Counting.looks
    assert 9 * window >= looks[window]
    assert looks[1_000] < 15 * looks[100]
