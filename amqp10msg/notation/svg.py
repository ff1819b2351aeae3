"""The diagnostic tree of one message as a picture: each line its bytes and what they mean."""

from __future__ import annotations

from typing import Any

from amqp10msg.app import pages
from amqp10msg.notation._rows import tree_of
from amqp10msg.notation.html import annotated

# Bytes of a line, characters of a value, and lines of the picture.
_OCTETS, _VALUE, _LINES = 8, 46, 200
# Pixels of a character and of a line, and the columns as characters from the left.
_CHARACTER, _HEIGHT = 7.6, 21
_COLUMNS = {"at": 4, "hex": 6, "name": 33, "type": 58, "value": 76}


def render_svg(data: Any, *, title: str = "AMQP message") -> str:
    """Draw a message as an SVG picture: its bytes beside the fields that they mean.

    The picture refers to nothing else, has a light and a dark look, and is as wide as 122
    characters; long values and long messages are cut. Needs ``amqp10msg[pages]``.

    Args:
        data: bytes, a `Message` or a tree of `parse_tree`.
        title: what it shows, for readers that do not see it.

    Raises:
        EncodeError: the `Message` cannot be encoded.
        ImportError: Jinja2 is not installed.
    """
    tree = tree_of(data, _LINES)
    (message,) = annotated([tree], [title])
    lines: list[dict[str, Any]] = []
    for row in message["rows"]:
        octets = tree.data[row["offset"] : row["stop"]]
        cut = "…" if len(octets) > _OCTETS else ""
        lines.append(
            {
                "at": str(row["offset"]),
                "hex": octets[:_OCTETS].hex(" ") + cut,
                "name": _shortened(row["name"] or "·", 24 - 2 * min(row["level"], 5)),
                "indent": 2 * _CHARACTER * min(row["level"], 5),
                "type": _shortened(row["type"], 17),
                "value": _shortened(row["value"], _VALUE),
                "section": row["section"],
                "group": row["group"],
                "top": row["level"] == 0,
                "problem": "",
            }
        )
        lines += [
            {"problem": _shortened(problem.text, 88), "group": problem.severity}
            for problem in row["problems"]
        ]
    return pages.render(
        "message.svg",
        title=title,
        lines=lines[:_LINES],
        height=_HEIGHT,
        width=round(_CHARACTER * 124),
        x={name: round(_CHARACTER * place, 1) for name, place in _COLUMNS.items()},
    )


def _shortened(text: str, most: int) -> str:
    shown: str = pages.printable(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"
