"""RabbitMQ's translation of messages between the two protocols, for each version.

`version` describes the differences between the versions. `from_basic` and `to_basic` translate like
RabbitMQ 4, in one direction each, and `v3` like RabbitMQ 3.10 in both; a version is an
argument of their functions. `terms` represents 1.0 values as the broker does.
"""

from __future__ import annotations
