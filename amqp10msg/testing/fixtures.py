"""Fixtures for pytest: an AMQP 1.0 server.

In a ``conftest.py``:

    pytest_plugins = ["amqp10msg.testing.fixtures"]

Needs pytest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from amqp10msg.net.serve import Server


@pytest.fixture
def amqp_server_options() -> dict[str, Any]:
    """Return the arguments of the server. Override this fixture to change the arguments.

    By default, the server accepts durable messages although it does not store them, because many
    clients send only durable messages.
    """
    return {"accept_durable": True}


@pytest.fixture
def amqp_server(amqp_server_options: dict[str, Any]) -> Iterator[Server]:
    """Start a server without messages on loopback, and stop it after the test.

    Its URL is `amqp_server.url`.
    """
    with Server(**amqp_server_options) as server:
        yield server
