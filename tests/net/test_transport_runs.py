"""Runs of transfers have the same effect as single transfers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amqp10msg.delivery import Accepted
from amqp10msg.net.transport import Link, LinkDelivery
from tests.net.test_transport_faults import ATTACH, BEGIN, OPEN, transfer
from tests.net.transport_ends import End, cuts, pieces, run


def _transfer(
    channel: int, handle: bytes, number: bytes, tag: bytes, rest: bytes, odd: tuple[int, ...]
) -> bytes:
    """Return a transfer in a list8 whose size, count or end may be wrong."""
    fields = handle + number + b"\xa0" + bytes((len(tag),)) + tag + rest
    size, count, more = odd
    said = bytes((1 + len(fields) + size, 3 + len(rest) + count)) + fields
    body = b"\0\x53\x14\xc0" + said + tag * 9
    return (8 + len(body) + more).to_bytes(4, "big") + b"\2\0" + bytes((0, channel)) + body


_TRANSFERS = st.lists(
    st.builds(
        _transfer,
        st.sampled_from([0] * 9 + [1]),
        st.sampled_from([b"C"] * 9 + [b"R\0", b"p\0\0\0\0", b"R\1", b"@"]),
        st.sampled_from(
            [
                b"C",
                b"@",
                *(b"R%c" % n for n in range(6)),
                b"p\0\0\0\x07",
                b"p\xff\xff\xff\xff",
                b"p\x80\0\0\0",
            ]
        ),
        st.sampled_from([b"", b"a", b"bb", b"stop", b"c" * 30, b"d" * 33, b"settle"]),
        st.sampled_from(
            [
                *(b"", b"C", b"CB", b"@BB", b"CBB@@BBB", b"CB@@@@@@", b"CBB@@B", b"CBB@@BBA"),
                *(b"CA", b"CBA", b"R\1", b"CBBR", b"CBB@@BA", b"CBB@@BBBB", b"CBB@@BBb", b"BB"),
            ]
        ),
        st.sampled_from(
            [(0, 0, 0)] * 20 + [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, 0, -1), (0, 0, 1 << 31)]
        ),
    ),
    max_size=12,
)


class Busy(End):
    """An end that ends, settles and detaches while messages arrive."""

    def on_transfer(self, delivery: LinkDelivery) -> None:
        super().on_transfer(delivery)
        if delivery.tag == b"stop":
            delivery.link.detach()
        elif delivery.tag in {b"settle", b"a"}:
            delivery.update(Accepted())


@given(_TRANSFERS, cuts, st.integers(2, 5), st.sampled_from([0, 30]), st.sampled_from([3, 100]))
def test_run_equals_single_transfers(
    frames: list[bytes], places: list[int], run_of: int, most: int, credit: int
) -> None:
    ends = [Busy("a", run=run_of, credit=credit), Busy("a", credit=credit)]
    for end in ends:
        end.engine.feed(OPEN + BEGIN + ATTACH)
        run(end)
        end.links[0].max_message_size = most
        for piece in pieces(b"".join(frames), places):
            end.engine.feed(piece)
            run(end)

    together, single = (
        (
            [(d.number, d.tag, d.payload, d.done, d.settled, d.aborted) for d in end.got],
            end.ends,
            end.engine.take(),
            end.engine.over,
            end.links[0].is_partial,
            end.links[0].credit if end.links[0].is_open else None,
            list(end.links[0].session.incoming),
        )
        for end in ends
    )
    assert single == together


class Counting(End):
    """An end that records the number of messages per callback."""

    def on_transfers(self, link: Link, deliveries: list[LinkDelivery]) -> None:
        super().on_transfers(link, deliveries)
        self.ends.append((str(len(deliveries)), None))


def test_run_is_one_callback() -> None:
    end = Counting("a", run=4)
    end.engine.feed(OPEN + BEGIN + ATTACH)
    end.engine.feed(b"".join(transfer(number) for number in range(6)))
    run(end)
    assert [("4", None), ("2", None)] == end.ends
    assert list(range(6)) == [delivery.number for delivery in end.got]
