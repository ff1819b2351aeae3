"""Write messages and values as JSON or CBOR, read them back, and explain their bytes.

- Typed JSON (`to_typed`, `from_typed`): lossless; every value is paired with the name of its type.
- Plain JSON (`to_plain`, `from_plain`): easy to read and to write by hand.
- CBOR (`to_cbor`, `from_cbor`): lossless, compact, deterministic. Requires ``amqp10msg[cbor]``.
- The diagnostic tree (`parse_tree`): the meaning of every byte, even in a broken message. It is
  rendered as text (`render_text`), as an HTML page (`render_html`) or as an SVG picture
  (`render_svg`).
"""

from typing import TYPE_CHECKING

from amqp10msg.notation._common import NotationError
from amqp10msg.wire.later import later

if TYPE_CHECKING:
    from amqp10msg.notation.cbor import from_cbor, to_cbor
    from amqp10msg.notation.html import render_html, render_svg
    from amqp10msg.notation.plain import to_plain
    from amqp10msg.notation.plain_reading import from_plain, value_from_plain
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

if not TYPE_CHECKING:  # hidden from type checkers, so that they report unknown names
    __getattr__ = later(
        __name__,
        {
            "cbor": ["from_cbor", "to_cbor"],
            "html": ["render_html", "render_svg"],
            "plain": ["to_plain"],
            "plain_reading": ["from_plain", "value_from_plain"],
            "text": ["render_text"],
            "tree": ["Node", "Tree", "parse_tree"],
            "typed": ["from_typed", "to_typed"],
        },
    )
