"""How the arguments of a command are read, and the errors for unreadable ones."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import tracemalloc
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Message
from amqp10msg.app.cli._input import Inputs
from amqp10msg.app.cli._options import format_descriptions
from amqp10msg.app.cli.convert import require_bytes
from amqp10msg.app.inspector.reading import Item
from amqp10msg.notation import to_plain, to_typed

MESSAGE = Message("hello")
OCTETS = MESSAGE.encode()
OTHER = Message(b"\x00\x01", application_properties={"k": True}).encode()
LIMIT = 1 << 20


def packed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)  # else each worker has its own ids of the tests


def items(*arguments: object, form: str = "auto", limit: int = LIMIT) -> list[Item]:
    return list(Inputs([str(argument) for argument in arguments], form, limit))


def data_of(found: list[Item]) -> list[bytes]:
    assert [item.fault for item in found if item.fault] == []
    return [item.data for item in found]


def test_expanding_files_are_read_only_if_trusted(tmp_path: Path) -> None:
    path = tmp_path / "in.prefixed"
    path.write_bytes(bytes(4) * 70_000 + len(OCTETS).to_bytes(4, "big") + OCTETS)

    *_, refused = items(path, form="prefixed")
    assert "or use --trust-files, to read it" in refused.fault
    *_, last = data_of(list(Inputs([str(path)], "prefixed", is_trusted=True)))
    assert OCTETS == last


CONTENTS = {
    "raw": OCTETS,
    "hex": OCTETS.hex().encode(),
    "base64": base64.b64encode(OCTETS),
    "a byte order mark": b"\xef\xbb\xbf" + OCTETS.hex().encode(),
    "a record": json.dumps({"raw": OCTETS.hex()}).encode(),
    "a record over lines": json.dumps({"hex": OCTETS.hex()}, indent=2).encode(),
    "a case of the corpus": json.dumps({"kind": "message", "data": OCTETS.hex()}).encode(),
    "typed": json.dumps(to_typed(MESSAGE)).encode(),
    "typed over lines": json.dumps(to_typed(MESSAGE), indent=2).encode(),
    "plain": json.dumps(to_plain(MESSAGE)).encode(),
    "plain over lines": json.dumps(to_plain(MESSAGE), indent=2).encode(),
}


@pytest.mark.parametrize("packed", [False, True], ids=["as it is", "gzip"])
@pytest.mark.parametrize("name", CONTENTS)
def test_format_of_a_file_is_detected(name: str, packed: bool, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(gzip.compress(CONTENTS[name]) if packed else CONTENTS[name])

    assert [OCTETS] == data_of(items(file))


NAMED = {
    "raw": (b"00", b"00"),
    "hex": (b"00", b"\0"),
    "base64": (b"00==", b"\xd3"),
    "typed": (json.dumps([["raw", OCTETS.hex()]]).encode(), OCTETS),
    "plain": (b'{"body": "hello"}', OCTETS),
    "jsonl": (json.dumps({"data_base64": base64.b64encode(OCTETS).decode()}).encode(), OCTETS),
    "prefixed": (len(OCTETS).to_bytes(4, "big") + OCTETS, OCTETS),
}


@pytest.mark.parametrize("form", NAMED)
def test_explicit_format_is_not_guessed(form: str, tmp_path: Path) -> None:
    """The byte 30 alone may be a value, or the digit 0."""
    content, expected = NAMED[form]
    file = tmp_path / "file"
    file.write_bytes(content)

    assert [expected] == data_of(items(file, form=form))


@given(messages=st.lists(st.binary(max_size=40), min_size=1, max_size=5))
def test_length_prefixed_messages_are_separated(messages: list[bytes]) -> None:
    octets = b"".join(len(one).to_bytes(4, "big") + one for one in messages)

    assert messages == data_of(items(octets.hex(), form="prefixed"))


@pytest.mark.parametrize(
    "octets, fault",
    [
        (b"\0\0", "its size is truncated"),
        (b"\0\0\0\5abc", "truncated: 3 of 5 bytes"),
        (b"\0\0\0\0\xff\xff\xff\xff", "larger than 1,048,576 bytes: raise --max-size"),
    ],
)
def test_length_prefix_beyond_the_end_of_the_file(
    octets: bytes, fault: str, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(octets)

    assert fault == items(file, form="prefixed")[-1].fault


class TestLines:
    """Files of lines: one bad line is one bad line."""

    def test_lines_have_a_number_and_a_name(self, tmp_path: Path) -> None:
        file = tmp_path / "lines"
        file.write_text(
            f'{{"raw": "{OCTETS.hex()}", "id": "first"}}\n\n{{"hex": "{OTHER.hex()}"}}\n'
            f'{{"raw": "0"}}\n{{"hello": 1}}\nno\n{json.dumps(to_typed(MESSAGE))}'
        )

        found = items(file)

        assert [f"{file}:1 (first)", *(f"{file}:{line}" for line in (3, 4, 5, 6, 7))] == [
            item.source for item in found
        ]
        assert [OCTETS, OTHER, b"", b"", b"", OCTETS] == [item.data for item in found]
        assert "'raw' cannot be decoded: not hex: 1 is an odd number of digits" == found[2].fault
        assert "$.hello: there is no such section" in found[3].fault
        assert "not JSON: Expecting value (column 1)" == found[4].fault

    def test_invalid_first_line_hides_no_other(self, tmp_path: Path) -> None:
        file = tmp_path / "lines"
        file.write_text(f'{{"raw": \n{{"raw": "{OCTETS.hex()}"}}\n')

        bad, good = items(file)

        assert f"{file}:1" == bad.source
        assert bad.fault.startswith("not JSON: ")
        assert (f"{file}:2", OCTETS, "") == (good.source, good.data, good.fault)

    def test_invalid_multi_line_document_is_one_fault(self, tmp_path: Path) -> None:
        file = tmp_path / "document"
        file.write_text('{\n  "body": "x",\n  oops\n}\n')

        (bad,) = items(file)

        assert str(file) == bad.source
        assert bad.fault.startswith("not JSON: ")
        assert "(line 3, column 3)" in bad.fault

    def test_lines_are_streamed(self, tmp_path: Path) -> None:
        """A file of 5 MB may not take 5 MB."""
        line = json.dumps({"raw": Message(b"x" * 5_000).encode().hex()}) + "\n"
        file = tmp_path / "lines"
        file.write_text(line * 500)
        tracemalloc.start()
        try:
            number = sum(1 for _ in Inputs([str(file)], "auto", LIMIT))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert 500 == number
        assert peak < 1 << 20

    def test_position_is_the_offset_in_the_file(self, tmp_path: Path) -> None:
        file = tmp_path / "lines"
        file.write_text(f'{{"raw": "{OCTETS.hex()}"}}\n' * 5_000)
        inputs = Inputs([str(file), OCTETS.hex()], "auto", LIMIT)
        positions = [inputs.position for _ in inputs]

        assert file.stat().st_size == inputs.total
        assert sorted(positions) == positions
        assert 0 < positions[0] < positions[-1] == inputs.total


def test_hex_lines_are_one_message_each(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text(f"{OCTETS.hex()}\n{OTHER.hex()}\n")

    found = items(file)

    assert [OCTETS, OTHER] == data_of(found)
    assert [f"{file}:1", f"{file}:2"] == [item.source for item in found]


def test_folder_is_read_recursively(tmp_path: Path) -> None:
    for name in ("b/two", "a", "b/c/three", ".git/hidden", "b/.hidden"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(OCTETS)
    (tmp_path / "b" / "loop").symlink_to(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")  # reading it would wait for ever

    found = items(tmp_path)

    assert [str(tmp_path / name) for name in ("a", "b/two", "b/c/three")] == [
        item.source for item in found
    ]


def test_existing_file_name_takes_precedence_over_hex(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("00").write_bytes(OCTETS)

    assert [OCTETS] == data_of(items("00"))
    assert [b"\x01"] == data_of(items("01"))


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_file_name_with_undecodable_bytes(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(str(tmp_path)) + b"/\xff\n")
    Path(name).write_bytes(OCTETS)

    assert [OCTETS] == data_of(items(name))


@given(octets=st.binary(max_size=40).map(lambda body: Message(body).encode()), data=st.data())
def test_hex_split_into_arguments_is_joined(octets: bytes, data: st.DataObject) -> None:
    digits = octets.hex()
    places = st.integers(1, len(octets) - 1).map(lambda place: 2 * place)
    cuts = sorted(data.draw(st.sets(places, max_size=5)))
    parts = [digits[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)]

    assert [octets] == data_of(items(*parts))


def test_arguments_that_start_like_messages_are_separate_messages(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(OTHER)

    found = items(OCTETS.hex(), base64.b64encode(OTHER).decode(), file, OTHER.hex(), "{}")

    assert [OCTETS, OTHER, OTHER, OTHER, b""] == data_of(found)
    assert ["message 1", "message 2", str(file), "argument 2", "argument 3"] == [
        item.source for item in found
    ]


def test_invalid_argument_is_named() -> None:
    with pytest.raises(click.UsageError) as caught:
        items("005", "377a1", "no.bin", "00")

    assert "no such file, and neither hex nor base64: 'no.bin'" == str(caught.value)


def test_hex_longer_than_a_file_name() -> None:
    octets = Message(b"x" * 100_000).encode()

    assert [octets] == data_of(items(octets.hex()))


@pytest.mark.parametrize(
    "argument, form, reason",
    [
        ("no.bin", "auto", "no such file, and neither hex nor base64: 'no.bin'"),
        ("no.bin", "typed", "no such file, and not JSON: 'no.bin'"),
        ("0053zz", "hex", "no such file, and not hex: 'z' is not a hex digit: '0053zz'"),
        ("{oops", "auto", "not JSON: Expecting property name"),
        ("", "auto", "an argument is empty"),
        (" ", "hex", "an argument is empty"),
        ("x" * 5_000, "auto", f"no such file, and neither hex nor base64: '{'x' * 40}…'"),
        ("00537", "auto", "no such file, and not hex: 5 is an odd number of digits"),
    ],
)
def test_unreadable_argument_is_a_usage_error(argument: str, form: str, reason: str) -> None:
    with pytest.raises(click.ClickException) as caught:
        require_bytes(items(argument, form=form)[0])

    assert reason in caught.value.format_message()


@pytest.mark.parametrize(
    "content, form, fault",
    [
        (b" \n ", "auto", "the text contains no message"),
        (b"hello, world", "auto", "this is text, but neither hex nor base64: 'hello, world'"),
        (b"\xff\xfe", "hex", "this is not text: use --format raw for the bytes of a message"),
        (b"[" * 100_000, "auto", "not JSON: nested too deeply"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "auto", "not JSON: Exceeds the limit"),
        (b'{"body": -1e400}', "auto", "the number -1e400 is too large for a double"),
        (b'{"body": {"k": 1, "k": 2}}', "auto", "the name 'k' occurs twice in one object"),
        (b'{"raw": "\xff"}', "jsonl", "not JSON: this is not UTF-8"),
        (b'{"body": 1}', "jsonl", "no object with one of the keys raw, hex, base64, data_base64"),
        (b"x" * (LIMIT + 1), "raw", "larger than 1,048,576 bytes: raise --max-size"),
        (b"[" + b" " * LIMIT, "auto", "line 1: larger than 1,048,576 bytes: raise --max-size"),
        (packed(OCTETS * 100)[:-3], "auto", "the gzip file is damaged: "),
        (packed(b"0" * 100)[:-6] + b"123456", "auto", "the gzip file is damaged: "),
        (b"\x1f\x8bjunk", "auto", "the gzip file is damaged: "),
    ],
)
def test_unreadable_file_is_an_item_with_a_fault(
    content: bytes, form: str, fault: str, tmp_path: Path
) -> None:
    file, good = tmp_path / "file", tmp_path / "good"
    file.write_bytes(content)
    good.write_bytes(OCTETS)

    bad, *rest = items(file, *([good] if form == "auto" else []), form=form)

    assert bad.fault.startswith(fault)
    assert all(item.data == OCTETS for item in rest)
    with pytest.raises(click.ClickException, match="file"):
        require_bytes(bad)


def test_gzip_bomb_is_not_unpacked(tmp_path: Path) -> None:
    file = tmp_path / "bomb"
    with gzip.open(file, "wb") as packed:
        for _ in range(100):
            packed.write(bytes(LIMIT))
    tracemalloc.start()
    try:
        (bad,) = items(file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert "larger than 1,048,576 bytes: raise --max-size" == bad.fault
    assert peak < 8 * LIMIT


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no such file here")
def test_endless_file_is_not_read_completely() -> None:
    assert "larger than 1,048,576 bytes: raise --max-size" == items("/dev/zero")[0].fault


def test_file_without_read_permission(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(OCTETS)
    file.chmod(0)
    if os.access(file, os.R_OK):
        pytest.skip("this user may read everything")

    assert "Permission denied" == items(file)[0].fault


@given(content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_file_gives_items(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("any") / "file"
    file.write_bytes(content)
    for form in format_descriptions():
        for item in items(file, form=form):
            assert not item.fault or not item.data


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (OCTETS, OCTETS.hex().encode(), gzip.compress(OCTETS)):
        stream = io.TextIOWrapper(io.BytesIO(content))
        monkeypatch.setattr("sys.stdin", stream)

        assert [OCTETS] == data_of(items("-"))
        assert not stream.closed


def test_empty_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))

    assert [Item("standard input", fault="the input is empty")] == items("-")
