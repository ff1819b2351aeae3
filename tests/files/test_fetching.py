"""Files of stores in pieces: what is read is what stands there, and is fetched once."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg.files import fetching
from amqp10msg.files.fetching import Fetched
from tests.waiting import TIMEOUT, wait_until

DATA = bytes(range(256)) * 8
PIECE, LEAST, HOLE, AT_A_TIME = 64, 16, 8, 4


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetching, "_READ_AHEAD_PIECE_SIZE", PIECE)
        patch.setattr(fetching, "_MIN_UNPLANNED_REQUEST_SIZE", LEAST)
        patch.setattr(fetching, "_MAX_MERGED_GAP", HOLE)
        yield


class Store:
    """A file, and what is asked for of it."""

    def __init__(self, most: int = 1 << 20) -> None:
        self.asked: list[tuple[int, int]] = []
        self.closed = 0
        self.file = Fetched(self._fetch, len(DATA), self._close, most)

    def _fetch(self, start: int, stop: int) -> bytes:
        assert 0 <= start < stop <= len(DATA)
        self.asked.append((start, stop))
        return DATA[start:stop]

    def _close(self) -> None:
        self.closed += 1

    @property
    def octets(self) -> int:
        return sum(stop - start for start, stop in self.asked)


places = st.integers(0, len(DATA) + 20)
spans = st.lists(st.tuples(places, places), max_size=4)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("expect"), st.lists(spans, max_size=3)),
        st.tuples(st.just("seek"), places),
        st.tuples(st.sampled_from(["read", "peek", "read_buffer", "readinto"]), places),
    ),
    max_size=12,
)


@given(steps, st.integers(0, 1000))
def test_reads_return_the_bytes_of_the_file(steps: list[Any], most: int) -> None:
    store, plain = Store(most), io.BytesIO(DATA)
    with store.file as file:
        for step, value in steps:
            at = plain.tell()
            if step == "expect":
                file.expect(*value)
            elif step == "seek":
                assert plain.seek(value) == file.seek(value)
            elif step == "peek":
                assert DATA[at : at + value] == file.peek(value)
            elif step == "readinto":
                room = bytearray(value)
                read = file.readinto(room)
                assert bool(read) == (at < len(DATA) and value > 0)
                assert plain.read(read) == bytes(room[:read])
            else:
                assert plain.read(value) == bytes(getattr(file, step)(value))
            assert plain.tell() == file.tell()
            held = sum(stop - start for start, stop in file._cache)
            assert held <= most + AT_A_TIME * PIECE
    assert 1 == store.closed


@given(spans, st.integers(1, 300), st.randoms())
def test_expected_spans_are_fetched_once_in_any_order(
    spans: list[tuple[int, int]], size: int, random: Any
) -> None:
    store = Store()
    wanted = {place for start, stop in spans for place in range(start, min(stop, len(DATA)))}
    with store.file as file:
        file.expect(spans)
        order = random.sample(sorted(wanted), len(wanted))
        for at in order:
            file.seek(at)
            assert DATA[at : at + 1] == file.read(1)
        for at in order[:9]:
            file.seek(at)
            while file.tell() < at + size and file.tell() in wanted:
                file.read(1)
    fetched = [place for start, stop in store.asked for place in range(start, stop)]
    assert len(fetched) == len(set(fetched))
    assert wanted <= set(fetched)
    # Besides, holes.
    assert len(fetched) <= len(wanted) + HOLE * max(len(spans) - 1, 0)


def test_span_expected_again_stays_cached_and_is_prefetched() -> None:
    store = Store()
    groups = [[(start, start + 100)] for start in range(100, 1000, 100)]
    with store.file as file:
        for number in range(len(groups)):
            file.expect(*groups[number : number + 2])
            ((start, stop),) = groups[number]
            file.seek(start)
            assert DATA[start:stop] == file.read(stop - start)
            assert DATA[start:stop] == (file.seek(start), file.read(stop - start))[1]
            # Of the next one something is on its way, and of those before nothing is there.
            behind = {span for span in file._cache if span[0] >= stop}
            assert bool(behind) == (number < len(groups) - 1)
            assert all(start <= span[0] < stop + 100 for span in file._cache)
    assert 900 == store.octets
    assert len(store.asked) == len(set(store.asked))


def test_peek_fetches_only_the_first_bytes() -> None:
    store = Store()
    with store.file as file:
        file.expect([(LEAST, len(DATA))])
        assert DATA[:4] == io.BufferedReader(file, 1000).peek(4)[:4]
        assert [(0, LEAST)] == store.asked


def test_evicted_pieces_are_fetched_again() -> None:
    store = Store(most=2 * PIECE)
    with store.file as file:
        file.expect([(0, len(DATA))])
        for _ in range(2):
            file.seek(0)
            assert DATA == file.read()
    assert len(DATA) < store.octets <= 2 * len(DATA)


def test_store_error_is_raised_at_the_read() -> None:
    def fetch(start: int, stop: int) -> bytes:
        if start >= 2 * PIECE:
            raise OSError("no connection")
        return DATA[start:stop]

    with Fetched(fetch, len(DATA), lambda: None) as file:
        file.expect([(0, len(DATA))])
        assert DATA[: 2 * PIECE] == file.read(2 * PIECE)
        with pytest.raises(OSError, match="no connection"):
            file.read(1)


def test_requests_are_concurrent_and_close_waits_for_them() -> None:
    together = threading.Barrier(AT_A_TIME, timeout=TIMEOUT)
    may_finish = threading.Event()
    running: set[int] = set()

    def fetch(start: int, stop: int) -> bytes:
        running.add(start)
        if start < AT_A_TIME * PIECE:
            together.wait()
        else:
            may_finish.wait(TIMEOUT)
        running.remove(start)
        return DATA[start:stop]

    with Fetched(fetch, len(DATA), lambda: None) as file:
        file.expect([(0, len(DATA))])
        assert DATA[: PIECE + 1] == file.read(PIECE + 1)
        wait_until(lambda: any(start >= AT_A_TIME * PIECE for start in [*running]))
        closing = threading.Thread(target=file.close)
        closing.start()
        closing.join(0.05)
        assert closing.is_alive()
        may_finish.set()
        closing.join()
    assert set() == running
