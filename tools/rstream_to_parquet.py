"""A stream of RabbitMQ to a Parquet file by rstream, a client of the stream protocol.

    python tools/rstream_to_parquet.py STREAM COUNT OUT [HOST:PORT]

For ``tools/stream_rates.py --beside``: reads the bytes of messages, writes them and
says how many seconds that took without its start. Needs rstream and pyarrow, and the plugin
rabbitmq_stream, which listens at 5552.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rstream import (  # type: ignore[import-not-found]  # not of this project's environment
    Consumer,
    ConsumerOffsetSpecification,
    OffsetType,
)

_BATCH = 10_000
_SCHEMA = pa.schema([("offset", pa.int64()), ("wire", pa.binary())])


async def copy(stream: str, count: int, out: str, place: str) -> float:
    """Copy so many messages; return how many seconds that took."""
    host, _, port = place.partition(":")
    consumer = Consumer(host=host, port=int(port), username="guest", password="guest")
    await consumer.start()
    begun = time.monotonic()
    wires: list[bytes] = []
    offsets: list[int] = []
    done = asyncio.Event()
    read = 0
    with pq.ParquetWriter(out, _SCHEMA) as writer:

        def on_message(message: Any, context: Any) -> None:
            nonlocal read
            wires.append(bytes(message))
            offsets.append(context.offset)
            read += 1
            if len(wires) >= _BATCH or read >= count:
                columns = [pa.array(offsets, pa.int64()), pa.array(wires, pa.binary())]
                writer.write_table(pa.table(columns, schema=_SCHEMA))
                wires.clear()
                offsets.clear()
            if read >= count:
                done.set()

        first = ConsumerOffsetSpecification(OffsetType.FIRST, None)
        await consumer.subscribe(
            stream=stream, callback=on_message, offset_specification=first, initial_credit=50
        )
        await done.wait()
    took = time.monotonic() - begun
    await consumer.close()
    return took


def main(stream: str, count: str, out: str, place: str = "127.0.0.1:5552") -> None:
    """Copy, and say how long it took."""
    print(f"seconds {asyncio.run(copy(stream, int(count), out, place))}")


if __name__ == "__main__":
    main(*sys.argv[1:])
