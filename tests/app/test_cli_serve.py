"""``amqp10msg serve`` as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from amqp10msg import Header, Message
from amqp10msg.app.cli import main

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")
utils = pytest.importorskip("proton.utils")

from amqp10msg.interop.proton import send, sendable  # noqa: E402
from amqp10msg.net.serve import Server  # noqa: E402  (needs proton)

pytestmark = pytest.mark.once

TIMEOUT = 20.0  # seconds


@contextmanager
def serving(*options: str, stop: int = signal.SIGTERM) -> Iterator[tuple[str, Any]]:
    """Run the command; yield its URL and, after the block, its log."""
    process = subprocess.Popen(
        [sys.executable, "-m", "amqp10msg", "serve", "--port", "0", *options],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONWARNINGS": "error"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    log: list[str] = []
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        yield url, log
        process.send_signal(stop)
        _, errors = process.communicate(timeout=TIMEOUT)
        log += errors.splitlines()
        assert 0 == process.returncode, errors
    finally:
        process.kill()
        process.communicate()


def test_messages_go_through_a_file_and_users(tmp_path: Path) -> None:
    users = tmp_path / "users.txt"
    users.write_text("ann:secret\n\nbob:with:colon\n")
    options = ["--store", str(tmp_path / "messages.db"), "--users", str(users), "--log", "json"]
    login = {"timeout": TIMEOUT, "allow_insecure_mechs": True}
    with serving(*options) as (url, log):
        connection = utils.BlockingConnection(url, user="ann", password="secret", **login)
        connection.create_sender("q").send(sendable(Message("x", header=Header(durable=True))))
        connection.close()
        with pytest.raises(proton.ConnectionException):
            utils.BlockingConnection(url, user="ann", password="wrong", **login)
    events = [json.loads(line) for line in log]
    assert ["listening", "connected", "opened", "attached"] == [one["event"] for one in events[:4]]
    assert ("ann", url) == (events[2]["user"], events[0]["url"])
    with serving(*options, stop=signal.SIGINT) as (url, _):
        connection = utils.BlockingConnection(url, user="bob", password="with:colon", **login)
        assert "x" == connection.create_receiver("q").receive().body
        connection.close()


def test_accepted_messages_survive_a_kill(tmp_path: Path) -> None:
    """The server accepts a message only after storing it, even if many arrive together."""
    random = Random(1)
    told: set[int] = set()
    number = 0
    for _ in range(4):
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "amqp10msg", "serve", "--port", "0", "--log", "none"),
                *("--store", str(tmp_path / "messages.db")),
            ],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        with process.stdout as output:
            url = output.readline().strip()
            connection = utils.BlockingConnection(url, timeout=TIMEOUT)
            link = connection.create_sender("q").link
            connection.wait(lambda link=link: link.credit)
            sent = {}
            while link.credit:
                number += 1
                message = Message(str(number), header=Header(durable=True))
                sent[number] = send(link, message)
            enough = random.randrange(len(sent))
            connection.wait(lambda sent=sent, enough=enough: settled(sent) >= enough)
            process.kill()
            with pytest.raises(proton.ConnectionException):
                connection.wait(lambda: False)
            process.wait()
        told |= {one for one, delivery in sent.items() if delivery.settled}
        with Server(file=tmp_path / "messages.db") as server:
            held = {int(message.text()) for message in server.messages("q")}
        assert told <= held
        assert len(told) >= enough


def settled(sent: dict[int, Any]) -> int:
    return sum(delivery.settled for delivery in sent.values())


def test_unnamed_nodes_are_refused_with_no_create() -> None:
    with serving("--node", "q", "--no-create", "--log", "none") as (url, log):
        connection = utils.BlockingConnection(url, timeout=TIMEOUT)
        connection.create_sender("q")
        with pytest.raises(utils.LinkDetached, match="amqp:not-found"):
            connection.create_sender("other")
        connection.close()
    assert [] == log


def test_port_in_use_is_a_one_line_error() -> None:
    with serving() as (url, _):
        port = url.rpartition(":")[2]
        result = CliRunner().invoke(main, ["serve", "--port", port])

    assert 1 == result.exit_code
    assert 1 == result.stderr.count("\n")
    assert f"{port}" in result.stderr


def test_removed_file_is_a_one_line_error(tmp_path: Path) -> None:
    path = tmp_path / "messages.db"
    process = subprocess.Popen(
        [sys.executable, "-m", "amqp10msg", "serve", "--port", "0", "--store", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        connection = utils.BlockingConnection(process.stdout.readline().strip(), timeout=TIMEOUT)
        sender = connection.create_sender("q")
        path.unlink()
        with pytest.raises(proton.ProtonException):
            sender.send(sendable(Message("x", header=Header(durable=True))))
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
        process.communicate()
    *events, last = errors.splitlines()
    assert 1 == process.returncode
    assert last.startswith(f"amqp10msg: {path} cannot be written: the file was removed")
    assert "INFO stopped" in events[-1]
    assert "Traceback" not in errors


@pytest.mark.parametrize("option", ["--cbs", "--service-bus"])
def test_cbs_accepts_any_token(option: str) -> None:
    from amqp10msg import AmqpValue, Properties  # noqa: PLC0415

    request = Message(
        AmqpValue("any token"),
        properties=Properties(message_id="1"),
        application_properties={"operation": "put-token", "type": "jwt", "name": "orders"},
    )
    with serving(option) as (url, _):
        connection = utils.BlockingConnection(url, timeout=TIMEOUT)
        receiver = connection.create_receiver("$cbs")
        connection.create_sender("$cbs").send(sendable(request))
        response = receiver.receive(timeout=TIMEOUT)
        connection.close()

    assert 200 == response.properties["status-code"]
