"""Two threads and the kernel of `columns`: it works without the GIL, and threads share its plans.

The other thread gives up the GIL after each of its steps, and nobody is asked to give it up. So it
comes to a step during a call only if the call itself gives up the GIL.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from amqp10msg import Message, Properties
from bench.messages import REFERENCE
from bench.threads import has_gil
from tests.columns.column_rows import a_layout

pa = pytest.importorskip("pyarrow", reason='needs pyarrow: pip install "amqp10msg[arrow]"')
columns = pytest.importorskip("amqp10msg.columns")
_decode = pytest.importorskip("amqp10msg.columns._decode")

if _decode.scan_kernel is None:
    pytest.skip(
        "the kernel of columns is not compiled: it needs a C compiler and make setup",
        allow_module_level=True,
    )

_encode_plan = pytest.importorskip("amqp10msg.columns._encode_plan")
ROWS = 20_000


@pytest.fixture
def steps() -> Iterator[Callable[[], int]]:
    """How many steps another thread has come to."""
    done, count = threading.Event(), [0]

    def work() -> None:
        while not done.is_set():
            count[0] += 1
            time.sleep(0)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield lambda: count[0]
    finally:
        done.set()
        sys.setswitchinterval(before)
        thread.join()


def comes_on(steps: Callable[[], int], call: Callable[[], object], calls: int = 100) -> bool:
    """Whether the other thread came to a step during a call: on one core it may take a few."""
    for _ in range(calls):
        before = steps()
        call()
        if steps() > before:
            return True
        time.sleep(0.001)
    return False


def test_other_threads_wait_while_gil_is_held(steps: Callable[[], int]) -> None:
    octets = bytes(ROWS)

    # Without a GIL nothing keeps the other thread back but other work on the machine.
    calls = 10 if has_gil() else 2000
    assert has_gil() != comes_on(steps, lambda: octets.count(b"no"), calls)


def test_decode_releases_the_gil(steps: Callable[[], int]) -> None:
    # Without Arrow's own functions, which give it up, too.
    plan = a_layout(lambda _: None)
    _, offsets, data = pa.array([REFERENCE] * ROWS).buffers()
    arguments = (data.address, data.size, offsets.address, offsets.size, 4, 0, 0, 0, ROWS)

    assert comes_on(steps, lambda: plan.read(*arguments, 1000, 1000, 4, 1000, 100, 1000))


def writes(writer: Any) -> Callable[[], object]:
    """A call of the kernel that writes all rows."""
    data, ends, odd = (pa.allocate_buffer(size) for size in (ROWS * 600, 4 * ROWS, ROWS))

    def call() -> None:
        done, _ = writer.write(0, 0, data.address, data.size, ends.address, odd.address)
        assert ROWS == done

    return call


def test_encode_releases_the_gil(steps: Callable[[], int]) -> None:
    batch = columns.decode([REFERENCE] * ROWS)

    assert comes_on(steps, writes(_encode_plan._make_writer(batch)))


def test_template_encoding_releases_the_gil(
    steps: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    template = Message(b"", properties=Properties(subject="s")).template(
        "properties.message_id", "body"
    )
    values = {
        "properties.message_id": pa.array([f"m-{i}" for i in range(ROWS)]),
        "body": pa.array([b"octets"] * ROWS),
    }
    kept: list[Any] = []
    messages = _encode_plan._write_messages

    def keep(writer: Any, count: int) -> Any:
        kept.append(writer)
        return messages(writer, count)

    monkeypatch.setattr(_encode_plan, "_write_messages", keep)
    columns.encode(values, template)

    assert comes_on(steps, writes(kept[0]))


def test_threads_share_a_batch_and_a_plan() -> None:
    octets = [
        Message(b"x" * (i % 50), properties=Properties(subject=f"s{i}")).encode()
        for i in range(2000)
    ]
    octets[7] = b"odd"
    array = pa.array(octets)
    expected = columns.decode(array)
    back = columns.encode(expected)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(columns.decode, [array] * 40))
        written = list(pool.map(columns.encode, [expected] * 40))

    assert all(expected.equals(one) for one in found)
    assert all(back.equals(one) for one in written)
