"""The script that runs ``amqp10msg pipeline`` under spark-submit.

The script has its own folder, because Python puts the folder of a script first on the module path.
In ``amqp10msg/app/cli``, ``inspect.py`` would then replace the standard module ``inspect``.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["JOB_FILE"]

#: The path of the script, to pass to spark-submit.
JOB_FILE = Path(__file__).with_name("amqp10msg_pipeline.py")
