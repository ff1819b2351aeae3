"""The jobs of ``amqp10msg pipeline`` as a file for spark-submit, in a folder of its own.

Python looks for modules beside a file that it is given first, and some of the modules of the
command line have names of the standard library's.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["JOB_FILE"]

#: What to give to spark-submit.
JOB_FILE = Path(__file__).with_name("amqp10msg_pipeline.py")
