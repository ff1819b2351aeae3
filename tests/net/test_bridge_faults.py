"""The short form of tools/bridge_faults.py, on the RabbitMQ that AMQP10MSG_RABBITMQ names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("pika")

from bridge_faults import WAYS, Place, Run

KILLS = int(os.environ.get("AMQP10MSG_KILLS", "3"))
BROKER = os.environ.get("AMQP10MSG_RABBITMQ")
pytestmark = [
    pytest.mark.kills,
    pytest.mark.skipif(BROKER is None, reason="AMQP10MSG_RABBITMQ names no RabbitMQ"),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fault", ["bridge", "cut", "full", "expiry"])
def test_no_message_is_lost_after_any_fault(fault: str, way: str, tmp_path: Path) -> None:
    """AMQP10MSG_KILLS sets the number of faults."""
    place = Place.at(BROKER or "", "4")

    found = Run(fault, place, place, way, tmp_path, seed=KILLS).run(350 * KILLS, KILLS)

    assert (0, 0, 0, 0) == (found.missing, found.altered, found.left, found.astray)
    assert found.twice <= found.may
    assert KILLS == found.breaks
