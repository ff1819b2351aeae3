"""Draw the pictures of the documentation: ``python tools/pictures.py``.

The picture of a message that ``amqp10msg inspect --svg`` draws, and that of the packages. A test
fails if a file is outdated.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import room_picture

from amqp10msg import Header, Int, Message, Properties
from amqp10msg.notation import parse_tree, render_svg
from amqp10msg.validation import validate

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
#: A message of an order, with what a queue adds, and one mistake.
MESSAGE = Message(
    b"paid",
    header=Header(durable=True, priority=7),
    message_annotations={"x-opt-origin": "shop"},
    properties=Properties(
        message_id="order-7",
        to="orders",
        content_type="text/plain",
        content_encoding="utf-8",
    ),
    application_properties={"tenant": "acme", "retries": Int(2)},
)


def pictures() -> dict[str, str]:
    """Return the pictures by the names of their files."""
    octets = MESSAGE.encode()
    tree = parse_tree(octets, violations=validate(octets))
    return {
        "message.svg": render_svg(tree, title="An AMQP 1.0 message, byte by byte"),
        "rooms.svg": room_picture.draw(),
    }


def main() -> None:
    """Write them."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(FOLDER / name)


if __name__ == "__main__":
    main()
