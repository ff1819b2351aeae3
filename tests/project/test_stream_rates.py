"""The tool that compares rates of reading a stream: its arithmetic, and what it sees."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: make setup")
pytest.importorskip("pika")

import stream_rates as rates
from spark_streams import Broker

pytestmark = pytest.mark.once


def test_a_ratio_is_how_many_times_quicker_the_source_is() -> None:
    theirs = rates.Measured(whole=10.0, reads=[4.0], processor=[3.0])
    mine = rates.Measured(whole=20.0, reads=[8.0, 4.0, 2.0], processor=[9.0, 4.0, 1.5])

    expected = {"whole": 0.5, "first": 0.5, "later": 2.0, "processor": 2.0}
    assert expected == rates.ratios(theirs, mine)


def test_each_read_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    measured = rates.Measured(6.5, [2.0, 1.0], [3.0, 1.5], memory=200, broker=0.25)

    rates.told("stream 0: amqp10-stream", measured, 1_000_000)

    expected = (
        "stream 0: amqp10-stream: 500,000, 1,000,000 a second; whole 6.50 s; processor time "
        "3.00 1.50 us a message, broker 0.25 us; 200 MiB a worker\n"
    )
    assert expected == capsys.readouterr().out


def test_processor_time_is_that_of_the_processes_that_are_there() -> None:
    begun = rates.spent([os.getpid()])
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    assert 0.15 <= rates.spent([os.getpid()]) - begun
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert (0, 0) == (rates.spent([ended.pid]), rates.memory([ended.pid]))
    assert 10 < rates.memory([os.getpid(), ended.pid])


def test_the_other_client_says_how_long_it_took(tmp_path: Path) -> None:
    class Given:
        beside = "printf 'rows {count}\\nseconds 1.5 of {stream} at {place} to {out}\\n'"
        count, broker_pid = 7, None

    broker = Broker("127.0.0.1:1", "127.0.0.1:2")
    found = rates.beside(broker, "s", tmp_path / "out", Given)

    assert ([1.5], None) == (found.reads, found.broker)
    assert 60 > found.whole
