"""Decode a batch of messages into an Arrow table, and encode it again."""

import pyarrow as pa

from amqp10msg import Message, Properties
from amqp10msg.columns import decode

wire = [Message(f"m{n}", properties=Properties(message_id=f"id-{n}")).encode() for n in range(1000)]
wire[7] = wire[7][:-1]

batch = decode(pa.array(wire, pa.binary()))
table = pa.Table.from_batches([batch])
print(table.schema)
assert 1000 == table.num_rows
assert 1 == sum(error is not None for error in batch["error_code"].to_pylist())
