"""Adding a series of RabbitMQ, as CONTRIBUTING describes it: one entry of one table, and its names.

The test copies the package, adds a series to the copy by editing its source, and uses the copy.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.package_copy import PACKAGE, copy_package, run_python

TABLES = PACKAGE.parent / "docs" / "_ext"
ENTRY = """        Series("4.9", "4.3", "by its sources, it has no changes", has_sql=True),
"""
PROGRAM = """
import json, sys
from amqp10msg import Message, validate
from amqp10msg.translate import PROFILES, to_basic
from amqp10msg.validation import PROFILES as VALIDATION
message = Message(b"x", subject="s", message_id=5)
json.dump(
    {
        "same": to_basic(message, "rabbitmq-4.9") == to_basic(message, "rabbitmq-4.3"),
        "stream": "rabbitmq-4.9-stream" in PROFILES,
        "names": [name for name in PROFILES.names if "4.9" in name],
        "validation": "rabbitmq-4.9" in VALIDATION and not validate(message, "rabbitmq-4.9"),
    },
    sys.stdout,
)
"""


def test_series_is_a_profile_everywhere(tmp_path: Path) -> None:
    start = '        Series("4", "4.3",'
    copy_package(tmp_path, "brokers.py", start, ENTRY + start)

    assert {
        "same": True,
        "stream": True,
        "names": ["rabbitmq-4.9", "rabbitmq-4.9-stream"],
        "validation": True,
    } == json.loads(run_python(tmp_path, "-c", PROGRAM))
    pytest.importorskip("click")
    command = ("translate", "--to", "0-9-1", "--profile", "rabbitmq-4.9", "005375a00178")
    assert "no loss" in run_python(tmp_path, "-m", "amqp10msg", *command)
    pytest.importorskip("sphinx")
    program = f"import sys; sys.path.insert(0, {str(TABLES)!r}); import amqp_tables; "
    assert "4.9" in run_python(tmp_path, "-c", f"{program}print(amqp_tables.rabbitmq_names())")
