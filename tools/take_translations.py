"""Take what brokers made of messages between AMQP 0-9-1 and 1.0 out of recordings.

    python tools/take_translations.py RECORDINGS tests/vectors/translations.jsonl.gz

RECORDINGS is a folder of ``truth-rabbitmq-*.jsonl.gz``, one file per version and queue type.
``tests/vectors/README.md`` describes the result.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DIRECTIONS = ("091-10", "10-091")


def entries(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield one entry per recording."""
    for path in sorted(folder.glob("truth-rabbitmq-*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                case = json.loads(line)
                if case["direction"] in DIRECTIONS:
                    yield entry_of(case)


def entry_of(case: dict[str, Any]) -> dict[str, Any]:
    """Cut a recording down to what a test compares."""
    broker = case["broker"]
    given = case["input"]
    message = case["output"]["message"]
    entry: dict[str, Any] = {"broker": broker, "id": case["id"]}
    if case["direction"] == "091-10":
        entry["basic"] = [given["props_raw"], given["body"]]
        entry["gives"] = message and message["raw"]
        exchange, key, offset = "", "lab.091-10", None
        for name, content, *_ in message["sections"] if message else ():
            if name == "message-annotations":
                for [_, text], value in content:
                    if text == "x-stream-offset":
                        offset = value[1]
                    elif text == "x-exchange" and "-route-" in case["id"]:
                        exchange = value[1]
                    elif text == "x-routing-key" and "-route-" in case["id"]:
                        key = value[1]
            # RabbitMQ 3.10 says only the key, as the subject.
            if name == "properties" and "-route-" in case["id"] and "-3." in broker:
                key = content[3][1]
        entry |= {"exchange": exchange, "key": key, "offset": offset}
    else:
        entry["message"] = given["raw"]
        entry["gives"] = message and [message["props_raw"], message["body"]]
        headers = message["props"].get("headers", []) if message and "-stream" in broker else []
        offsets = [field[1] for name, field in headers if name == "x-stream-offset"]
        entry["offset"] = offsets[0] if offsets else None
    return entry


def main() -> None:
    """Read the recordings and write the entries."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recordings", type=Path, help="folder of truth-rabbitmq-*.jsonl.gz")
    parser.add_argument("output", type=Path, help="the .jsonl.gz to write")
    arguments = parser.parse_args()
    found = list(entries(arguments.recordings))
    if not found:
        raise SystemExit(f"{arguments.recordings} holds no truth-rabbitmq-*.jsonl.gz")
    text = "".join(
        json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n" for entry in found
    )
    # Without a time stamp in it, the same recordings give the same file.
    arguments.output.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
