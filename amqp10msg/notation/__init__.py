"""Messages and values written down, and read back.

- Typed JSON (`to_typed`, `from_typed`): every value beside the name of its type, lossless.
- Plain JSON (`to_plain`, `from_plain`): for people to read and to write by hand.
- CBOR (`to_cbor`, `from_cbor`): lossless, compact, deterministic; needs ``amqp10msg[cbor]``.
- The diagnostic tree (`parse_tree`): what every byte means, also where a message is broken; as
  text for a terminal (`render_text`), as an HTML page (`render_html`) and as a picture
  (`render_svg`).
"""

import importlib
from typing import TYPE_CHECKING, Any

from amqp10msg.notation._common import NotationError

if TYPE_CHECKING:
    from amqp10msg.notation.cbor import from_cbor, to_cbor
    from amqp10msg.notation.html import render_html
    from amqp10msg.notation.plain import to_plain
    from amqp10msg.notation.plain_reading import from_plain, value_from_plain
    from amqp10msg.notation.svg import render_svg
    from amqp10msg.notation.text import render_text
    from amqp10msg.notation.tree import Node, Tree, parse_tree
    from amqp10msg.notation.typed import from_typed, to_typed

__all__ = [
    "Node",
    "NotationError",
    "Tree",
    "from_cbor",
    "from_plain",
    "from_typed",
    "parse_tree",
    "render_html",
    "render_svg",
    "render_text",
    "to_cbor",
    "to_plain",
    "to_typed",
    "value_from_plain",
]

#: Where the other public names are, which are imported when one is first used.
_LATER = {
    "Node": "tree",
    "Tree": "tree",
    "from_cbor": "cbor",
    "from_plain": "plain_reading",
    "from_typed": "typed",
    "parse_tree": "tree",
    "render_html": "html",
    "render_svg": "svg",
    "render_text": "text",
    "to_cbor": "cbor",
    "to_plain": "plain",
    "to_typed": "typed",
    "value_from_plain": "plain_reading",
}


if not TYPE_CHECKING:  # so that type checkers find names that are not there

    def __getattr__(name: str) -> Any:
        """Import a notation when it is first used."""
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
        globals()[name] = found
        return found
