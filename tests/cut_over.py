"""Two stand-ins of RabbitMQ, and the command ``migrate`` between them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from amqp10msg.app.cli import main
from tests.basic_broker import BasicBroker, running
from tests.bridging import numbered
from tests.management_api import management

__all__ = ["NOTHING", "OTHERS", "Cut", "cut", "cut_of_a_stream"]

NOTHING: dict[str, Any] = {"exchanges": [], "bindings": [], "policies": []}
OTHERS = {**NOTHING, "overview": {"rabbitmq_version": "4.0.5"}}


class Cut:
    """Two brokers, and what the command says."""

    def __init__(self, old: BasicBroker, new: BasicBroker, apis: tuple[str, str]) -> None:
        self.old, self.new, self._apis = old, new, apis
        self.made: list[Any] = []
        self.rows: list[dict[str, Any]] = []

    def run(self, *arguments: str, status: int = 0) -> Any:
        command = ["migrate", self.old.url(""), self.new.url(""), "--idle", "0.1"]
        command += ["--management", self._apis[0], "--target-management", self._apis[1]]
        command += ["--report", "r.json", "--report", "r.html", "--log", "none", *arguments]
        done = CliRunner().invoke(main, command)
        assert status == done.exit_code, done.output
        return done

    def queues(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(Path("r.json").read_text())["queues"]
        return found


@contextlib.contextmanager
def cut(held: int = 0, names: tuple[str, ...] = ("a", "b")) -> Iterator[Cut]:
    """A source with ten messages in each queue, of which another consumer may hold some."""
    old, new = BasicBroker(*names), BasicBroker(*names)
    for name in names:
        old.queues[name].extend(numbered(10))
    usual = {"type": "classic", "durable": True, "arguments": {}}
    rows = [{"name": name, **usual, "messages_unacknowledged": held} for name in names]
    made: list[Any] = []
    there = [{"name": "else", **usual}]
    with (
        running(old),
        running(new),
        management(rows, others=OTHERS) as one,
        management(there, others=OTHERS, made=made) as other,
    ):
        found = Cut(old, new, (one, other))
        found.made, found.rows = made, rows
        yield found


@contextlib.contextmanager
def cut_of_a_stream() -> Iterator[Cut]:
    """A stream with ten messages at the source, and an empty one at the target."""
    row = {"name": "s", "type": "stream", "durable": True, "arguments": {}}
    there = [{"name": "else", "type": "classic", "durable": True, "arguments": {}}]
    old, new = BasicBroker(), BasicBroker()
    old.streams["s"], new.streams["s"] = numbered(10), []
    with (
        running(old),
        running(new),
        management([row], others=OTHERS) as one,
        management(there, others=OTHERS) as other,
    ):
        yield Cut(old, new, (one, other))
