"""What RabbitMQ makes of a message between the two protocols, version by version.

`version` says what differs between the versions. `from_basic` and `to_basic` are the two ways
through RabbitMQ 4 and `v3` both ways through 3.10, as functions of such a version; `terms` are 1.0
values as the broker holds them.
"""

from __future__ import annotations
