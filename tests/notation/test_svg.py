"""`render_svg`: any bytes give a picture, and their content cannot inject markup."""

from __future__ import annotations

import runpy
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("jinja2")

from amqp10msg import Message
from amqp10msg.app.cli import main
from amqp10msg.notation import render_svg

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
TOOL = runpy.run_path(str(ROOT / "tools" / "pictures.py"))
SVG = "{http://www.w3.org/2000/svg}"


@given(st.binary(max_size=200) | st.text(max_size=30).map(lambda text: Message(text).encode()))
def test_any_bytes_give_a_picture(octets: bytes) -> None:
    root = ET.fromstring(render_svg(octets))

    assert {"title", "style", "rect", "text"} >= {e.tag.removeprefix(SVG) for e in root[0:]}
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for rect in root.iter(f"{SVG}rect"):
        assert float(rect.attrib["x"]) + float(rect.attrib["width"]) <= width
        assert float(rect.attrib["y"]) + float(rect.attrib["height"]) <= height


def test_message_content_stays_text() -> None:
    evil = '</text><script>alert(1)</script>"&'
    picture = render_svg(Message(evil, application_properties={evil: evil}), title=evil)

    assert "<script" not in picture
    assert "http:" not in picture.replace('xmlns="http://www.w3.org/2000/svg"', "")
    ET.fromstring(picture)


def test_the_pictures_of_the_documentation_are_current() -> None:
    """If a picture is outdated, run ``python tools/pictures.py``."""
    made = TOOL["pictures"]()

    assert made == {name: (FOLDER / name).read_text(encoding="utf-8") for name in made}
    assert {*made, "logo.svg"} == {path.name for path in FOLDER.glob("*.svg")}


def test_inspect_svg(tmp_path: Path) -> None:
    file = tmp_path / "picture.svg"

    done = CliRunner().invoke(
        main, ["inspect", "--svg", TOOL["MESSAGE"].encode().hex(), "-o", str(file)]
    )
    two = CliRunner().invoke(main, ["inspect", "--svg", "-"], input='{"raw": "40"}\n' * 2)

    assert (0, 1) == (done.exit_code, two.exit_code)
    drawn = (FOLDER / "message.svg").read_text(encoding="utf-8")
    assert (
        drawn.partition("</title>")[2] == file.read_text(encoding="utf-8").partition("</title>")[2]
    )
    assert "--svg shows a single message" in two.stderr
