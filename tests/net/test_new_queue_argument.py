"""Adding an argument of queues to the server, as CONTRIBUTING describes it: one entry of one table.

The test copies the package, adds an argument to the copy by editing its source, and uses the copy.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.package_copy import copy_package, run_python

ENTRY = """    "x-acme-mode": _choice_argument("cq", "fast", "safe"),
"""
PROGRAM = """
import json, sys
from amqp10msg import AmqpValue, Message
from amqp10msg.net.serve import Server

def ask(server, method, to, body=None):
    request = Message(AmqpValue(body), message_id="m-1", to=to, subject=method, reply_to="$me")
    request = Message.decode(request.encode())
    response = server.call(lambda _: server.broker.services["/management"](request, None))
    response = Message.decode(response.encode())
    return response.subject, response.value

def serving():
    properties = {"product": "RabbitMQ", "version": "4.1.0"}
    return Server(file="s.db", properties=properties)

def declared(mode, **others):
    return {"durable": True, "arguments": {"x-acme-mode": mode, **others}}

with serving() as server:
    answers = [
        ask(server, "PUT", "/queues/a", declared("safe")),
        ask(server, "PUT", "/queues/b", declared("slow")),
        ask(server, "PUT", "/queues/c", declared("safe", **{"x-queue-type": "stream"})),
    ]
with serving() as server:
    kept = ask(server, "GET", "/queues/a")[1]["arguments"]
    changed = ask(server, "PUT", "/queues/a", declared("fast"))
json.dump([[status, str(body)] for status, body in (*answers, changed)] + [kept], sys.stdout)
"""


def test_argument_is_checked_and_kept(tmp_path: Path) -> None:
    start = '    "x-max-length": _integer_argument("cq", 0),\n'
    copy_package(tmp_path, "net/serve/services.py", start, ENTRY + start)

    answers: list[Any] = json.loads(run_python(tmp_path, "-c", PROGRAM))
    declared, invalid, stream, changed, kept = answers
    assert "201" == declared[0]
    assert ("409", True) == (invalid[0], "x-acme-mode takes one of fast, safe" in invalid[1])
    assert ("409", True) == (stream[0], "a stream queue has no argument x-acme-mode" in stream[1])
    assert {"x-acme-mode": "safe"} == kept
    assert "409" == changed[0]
