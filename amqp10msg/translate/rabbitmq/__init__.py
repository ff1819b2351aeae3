"""RabbitMQ's translation of messages between the two protocols, for each version.

`version` describes the differences between the versions. `from_basic` (to 1.0) and `to_basic` (to
0-9-1) translate like RabbitMQ 4, `v3` in both directions like RabbitMQ 3.10; their functions have
the version as an argument. `terms` represents 1.0 values as the broker does.
"""

from __future__ import annotations
