"""A script that runs ``amqp10msg pipeline`` under spark-submit.

It has its own folder because Python puts a script's folder first on the module path, and some
modules of the command line have the names of standard modules.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["JOB_FILE"]

#: The path to pass to spark-submit.
JOB_FILE = Path(__file__).with_name("amqp10msg_pipeline.py")
