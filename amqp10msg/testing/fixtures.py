"""Fixtures for pytest: a server of distribution nodes.

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
    """Return the arguments of the server; override it to change them.

    Durable messages are accepted although nothing is stored, because many clients send only durable
    messages.
    """
    return {"accept_durable": True}


@pytest.fixture
def amqp_server(amqp_server_options: dict[str, Any]) -> Iterator[Server]:
    """Start an empty server on loopback, and stop it after the test; `url` is its address."""
    with Server(**amqp_server_options) as server:
        yield server
