"""The content of the pipeline's messages in Avro, and Spark's own reader of it.

Spark says ``from_avro`` itself, and has Avro and its deserializer among its jars, but not the
expression between them, which is in a jar of its own, spark-avro. `AvroDataToCatalyst.scala` does
what that one does in its mode FAILFAST.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from amqp10msg import Message

_TIMESTAMP: Final = {"type": "long", "logicalType": "timestamp-micros"}
_TYPES: Final[dict[str, Any]] = {
    **dict.fromkeys(("durable", "first_acquirer"), "boolean"),
    **dict.fromkeys(("priority", "body_sections"), "int"),
    **dict.fromkeys(("ttl", "delivery_count", "group_sequence"), "long"),
    **dict.fromkeys(("message_id", "message_id_type", "to", "subject", "reply_to"), "string"),
    **dict.fromkeys(("correlation_id", "correlation_id_type", "content_type"), "string"),
    **dict.fromkeys(("content_encoding", "group_id", "reply_to_group_id"), "string"),
    **dict.fromkeys(("body_kind", "body_json"), "string"),
    **dict.fromkeys(("user_id", "body"), "bytes"),
    **dict.fromkeys(("absolute_expiry_time", "creation_time"), _TIMESTAMP),
}
_PROPERTIES: Final = {
    "name": "application_properties",
    "type": {"type": "map", "values": ["string", "long", "double"]},
}
#: A record of what the messages have, and one of all columns, which are null where they have not.
CONTENT: Final[dict[str, Any]] = {
    "type": "record",
    "name": "content",
    "fields": [
        *(
            {"name": name, "type": _TYPES[name]}
            for name in ("message_id", "to", "subject", "creation_time", "body")
        ),
        _PROPERTIES,
    ],
}
ALL: Final[dict[str, Any]] = {
    "type": "record",
    "name": "every",
    "fields": [
        *({"name": name, "type": ["null", kind]} for name, kind in _TYPES.items()),
        _PROPERTIES,
    ],
}


def encoded(wires: Iterable[bytes], schema: dict[str, Any]) -> list[bytes]:
    """Return messages of `bench.pipeline.messages` as records of Avro, without a container."""
    import fastavro  # noqa: PLC0415  (an extra)

    parsed = fastavro.parse_schema(schema)
    made = []
    for wire in wires:
        message = Message.decode(wire)
        fields = message.properties
        assert fields is not None
        assert fields.creation_time is not None
        record = {
            "message_id": fields.message_id,
            "message_id_type": "string",
            "to": fields.to,
            "subject": fields.subject,
            "creation_time": int(fields.creation_time) * 1000,
            "application_properties": {
                name: value if isinstance(value, str | float) else int(value)
                for name, value in (message.application_properties or {}).items()
            },
            "body": message.body_bytes(),
            "body_kind": "data",
            "body_sections": 1,
        }
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, record)
        made.append(out.getvalue())
    return made


def read(df: Any, schema: dict[str, Any]) -> Any:
    """Return the fields of the records in the column ``wire`` as columns."""
    made = df.selectExpr(f"from_avro(wire, '{json.dumps(schema)}', map()) as record")
    return made.select("record.*")


def jar(folder: Path) -> Path:
    """Compile Spark's expression into a jar in a folder.

    Raises:
        RuntimeError: the compiler of Scala is not there, or refuses.
    """
    root = Path(__file__).parents[1]
    sys.path.append(str(root / "tools"))
    try:
        from build_spark_jvm import compiled  # noqa: PLC0415  (takes a checkout, as the jar does)
    finally:
        sys.path.pop()
    target = folder / "avro.jar"
    compiled([root / "bench" / "AvroDataToCatalyst.scala"], target)
    return target
