"""The sections and the fields of those that are composites, by place, as plain JSON names them."""

from __future__ import annotations

from amqp10msg.composite import COMPOSITES
from amqp10msg.sections import KINDS

#: The code of the first place.
FIRST = KINDS[0].code
SHOWN = [kind.name.replace("-", "_") for kind in KINDS]
SOURCES = [kind.source for kind in KINDS]
#: The places of sections with rules of their own.
PROPERTIES = SHOWN.index("application_properties")
VALUE = SHOWN.index("amqp_value")

_ENTRIES = [COMPOSITES.get(kind.code) for kind in KINDS]
#: Of sections that are composites, the fields; of others, none.
FIELD_NAMES = [[row.name for row in entry.fields] if entry else [] for entry in _ENTRIES]
FIELD_KINDS: list[bytes] = [entry.spec.kinds if entry else b"" for entry in _ENTRIES]
