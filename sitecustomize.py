"""Subprocesses of the pure test run import the kernel's sources, too: see tests/pure_build.py.

Python imports this at its start where PYTHONPATH names this folder.
"""

import os

if os.environ.get("AMQP10MSG_PURE") == "1":
    from tests.pure_build import follow_the_environment

    follow_the_environment()
