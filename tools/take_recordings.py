"""Take the encoded AMQP 1.0 messages out of recordings of brokers and peers.

    python tools/take_recordings.py RECORDINGS tests/vectors/recorded.jsonl.gz

RECORDINGS is a folder of ``truth-*.jsonl.gz``, one file per broker and queue type or per peer: what
a message that was sent became when it was received. The result holds every distinct message that
came out, once, with all the places that it came from; ``tests/vectors/README.md`` describes it.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = {"rabbitmq": "RabbitMQ", "python-qpid-proton": "python-qpid-proton", "rhea": "rhea"}


def origin_of(broker: str) -> tuple[str, str]:
    """Split a recording's broker into the name with its version, and the queue type."""
    match = re.fullmatch(r"([a-z-]+)-(\d[\d.]*)(?:-(quorum|stream))?", broker)
    if match is None:
        raise SystemExit(f"{broker!r} is not name-version or name-version-queue")
    name, version, queue = match.groups()
    return f"{NAMES[name]} {version}", queue or ("classic" if name == "rabbitmq" else "")


def recorded(folder: Path) -> Iterator[tuple[str, Any, list[str]]]:
    """Yield each received message: its bytes in hex, its sections, its origin."""
    for path in sorted(folder.glob("truth-*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                case = json.loads(line)
                message = case["output"].get("message")
                if message and "raw" in message:
                    origin = [*origin_of(case["broker"]), case["direction"], case["id"]]
                    yield message["raw"], message["sections"], origin


def entry_of(raw: str, sections: list[Any]) -> dict[str, Any]:
    """Return an entry without origins; its sections end where the bytes stop being valid."""
    entry = {"raw": raw, "sections": sections, "origins": []}
    if sections and sections[-1][0] == "!decode-error":
        entry = {"raw": raw, "sections": sections[:-1], "malformed": sections[-1][2], "origins": []}
    return entry


def main() -> None:
    """Read the recordings and write the distinct messages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recordings", type=Path, help="folder of truth-*.jsonl.gz")
    parser.add_argument("output", type=Path, help="the .jsonl.gz to write")
    arguments = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    for raw, sections, origin in recorded(arguments.recordings):
        entry = found.setdefault(raw, entry_of(raw, sections))
        if {**entry, "origins": []} != entry_of(raw, sections):
            raise SystemExit(f"{origin}: the same bytes were read in two ways")
        entry["origins"].append(origin)
    if not found:
        raise SystemExit(f"{arguments.recordings} holds no truth-*.jsonl.gz with messages")
    text = io.StringIO()
    for entry in found.values():
        text.write(json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n")
    # Without a time stamp in it, the same recordings give the same file.
    arguments.output.write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
