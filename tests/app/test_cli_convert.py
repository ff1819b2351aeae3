"""``amqp10msg convert`` and ``encode``: lossless conversion between all formats."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    Header,
    Message,
    Properties,
    Symbol,
    UInt,
    decode_values,
    encode_value,
    validate,
)
from amqp10msg.app.cli import main
from amqp10msg.app.cli._options import TARGETS
from amqp10msg.app.inspector.judging import is_message
from amqp10msg.notation import to_typed
from tests.samples import corpus_cases

MESSAGE = Message(
    "héllo\n\N{SNOWMAN}",
    header=Header(durable=True),
    properties=Properties(message_id="m-1", user_id=b"\x00\xff"),
    application_properties={"k": UInt(1), "s": Symbol("x")},
)
OCTETS = MESSAGE.encode()
OTHER = Message(b"\x00\x01").encode()
MANY = [target for target in TARGETS if target not in ("raw", "cbor")]


def run(*arguments: str, data: bytes = b"") -> Result:
    return CliRunner().invoke(main, arguments, input=data)


@pytest.fixture(autouse=True)
def with_cbor(request: pytest.FixtureRequest) -> None:
    if "cbor" in request.node.name:
        pytest.importorskip("cbor2")


@pytest.mark.parametrize("target", TARGETS)
def test_round_trip_gives_the_same_bytes(target: str) -> None:
    there = run("convert", "--out", target, OCTETS.hex())
    back = run("convert", "--format", target, "--out", "raw", data=there.stdout_bytes)

    assert (0, 0) == (there.exit_code, back.exit_code)
    assert OCTETS == back.stdout_bytes


@pytest.mark.parametrize(
    "command", [("convert", "--out", "jsonl"), ("filter", "--out", "jsonl", "-o", "-", "TRUE")]
)
def test_json_lines_keep_what_the_file_states(command: tuple[str, ...]) -> None:
    record = {"raw": OCTETS.hex(), "message_format": 7, "delivery_tag": "00ff", "address": "/a"}

    result = run(*command, "--format", "jsonl", data=json.dumps(record).encode())

    assert 0 == result.exit_code
    assert record == json.loads(result.stdout)


@pytest.mark.parametrize("target", MANY)
def test_several_messages_stay_several(target: str) -> None:
    there = run("convert", "--out", target, OCTETS.hex(), OTHER.hex(), OCTETS.hex())
    back = run("convert", "--format", target, "--out", "hex", data=there.stdout_bytes)

    assert (0, 0) == (there.exit_code, back.exit_code)
    assert [OCTETS.hex(), OTHER.hex(), OCTETS.hex()] == back.stdout.splitlines()


@pytest.mark.parametrize("target", ["typed", "plain", "cbor"])
def test_a_value_is_converted_like_a_message(target: str) -> None:
    octets = encode_value([1, "x", {Symbol("k"): UInt(7)}])

    there = run("convert", "--out", target, octets.hex())
    back = run("convert", "--format", target, "--out", "hex", data=there.stdout_bytes)

    assert octets.hex() == back.stdout.strip()


@pytest.mark.parametrize("target", ["typed", "plain", "cbor"])
def test_corpus_round_trips_through_every_notation(target: str, tmp_path: Path) -> None:
    """Through a notation goes every message, sound or not, with all that it says."""
    cases = [
        case
        for case in corpus_cases()
        if case.kind == "message" and case.typed is not None and is_message(case.data)
    ]
    (tmp_path / "cases.jsonl").write_text(
        "".join(json.dumps({"raw": case.data.hex(), "id": case.id}) + "\n" for case in cases)
    )
    if target == "cbor":
        cases = [case for case in cases if "full" in case.id]  # one process each
        results = [run("convert", "--out", "cbor", case.data.hex() or "-") for case in cases]
        documents = [result.stdout_bytes for result in results]
    else:
        there = run("convert", "--out", target, str(tmp_path / "cases.jsonl"))
        documents = there.stdout_bytes.splitlines(keepends=True)

    assert len(cases) == len(documents)
    for case, document in zip(cases, documents, strict=True):
        back = run("convert", "--format", target, "--out", "raw", data=document)
        assert 0 == back.exit_code, f"{case.id}: {back.stderr}"
        before, after = (Message.decode(o, strict=False) for o in (case.data, back.stdout_bytes))
        # A second section with a symbol for a descriptor gets the number, and is unequal by that.
        assert before == after or to_typed(before) == to_typed(after), case.id


@given(octets=st.binary(max_size=40))
def test_arbitrary_bytes_convert_to_byte_formats(octets: bytes) -> None:
    for target in ("hex", "base64", "jsonl", "prefixed"):
        there = run("convert", "--format", "raw", "--out", target, data=octets or b"\0")
        back = run("convert", "--format", target, "--out", "raw", data=there.stdout_bytes)

        assert (octets or b"\0") == back.stdout_bytes


# A message that cannot be read to its end, and has an earlier fault: a map in place of the header's
# list, or a priority of a wrong type.
@pytest.mark.parametrize("octets", ["005370c102014100537709", "005370c0050240500353447700"])
def test_earlier_fault_is_named_as_by_validate(octets: str) -> None:
    first = validate(bytes.fromhex(octets))[0]

    results = [run("convert", "--out", "plain", octets), run("inspect", octets)]

    line = f"amqp10msg: the argument: at byte {first.offset} ({first.path}): {first.text}\n"
    assert [(1, line)] * 2 == [(result.exit_code, result.stderr) for result in results]
    assert (
        f"byte {first.offset} ({first.path}): error: {first.text}" in run("validate", octets).stdout
    )


def test_cbor_without_cbor2_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cbor2", None)

    for arguments in (["--out", "cbor"], ["--format", "cbor", "--out", "hex"]):
        result = run("convert", *arguments, OCTETS.hex())

        assert (1, "") == (result.exit_code, result.stdout)
        assert "amqp10msg: CBOR needs cbor2: pip install 'amqp10msg[cbor]'\n" == result.stderr


def test_output_file_appears_only_on_success(tmp_path: Path) -> None:
    file = tmp_path / "out"

    assert 1 == run("convert", "--out", "typed", OCTETS[:-1].hex(), "-o", str(file)).exit_code
    assert not file.exists()
    assert 0 == run("convert", "--out", "raw", OCTETS.hex(), "-o", str(file)).exit_code
    assert OCTETS == file.read_bytes()
    assert OCTETS == run("convert", "--out", "raw", OCTETS.hex(), "-o", "-").stdout_bytes


class TestEncode:
    @pytest.mark.parametrize(
        "document, message",
        [
            ({"body": "hello"}, Message("hello")),
            ({"data": "hello"}, Message(b"hello")),
            (
                {"properties": {"to": "q"}, "application_properties": {"n": 1}, "amqp_value": None},
                Message.decode(
                    bytes.fromhex("005373c006034040a10171005374c10602a1016e550100537740")
                ),
            ),
            ([["amqp-value", ["uint", 5]]], Message(UInt(5))),
        ],
    )
    def test_json_becomes_a_message(self, document: object, message: Message) -> None:
        text = json.dumps(document)

        for result in (run("encode", text), run("encode", data=text.encode())):
            assert (0, "") == (result.exit_code, result.stderr)
            assert message == Message.decode(bytes.fromhex(result.stdout))

    @pytest.mark.parametrize("out", ["hex", "base64", "raw", "jsonl", "prefixed"])
    def test_output_is_valid_input(self, out: str) -> None:
        result = run("encode", '{"body": "hello"}', "--out", out)
        back = run("convert", "--format", out, "--out", "raw", data=result.stdout_bytes)

        assert Message("hello").encode() == back.stdout_bytes

    def test_json_lines_are_one_message_per_line(self, tmp_path: Path) -> None:
        file = tmp_path / "lines"
        file.write_text('{"body": 1}\n{"body": 2}\n')

        result = run("encode", str(file))

        assert [Message(1), Message(2)] == [
            Message.decode(bytes.fromhex(line)) for line in result.stdout.splitlines()
        ]


def test_several_values_keep_their_order() -> None:
    result = run("convert", "--out", "typed", "41 42 43")

    assert [["boolean", True], ["boolean", False], ["uint", 0]] == [
        json.loads(line) for line in result.stdout.splitlines()
    ]
    assert [True, False, 0] == list(decode_values(bytes.fromhex("414243")))
