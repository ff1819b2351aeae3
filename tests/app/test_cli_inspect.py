"""``amqp10msg inspect``: the explanation of every byte, the views, and violations."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Header, Message, Properties, UInt, delivery, encode_value, validate
from amqp10msg.app.cli import main
from amqp10msg.app.inspector.judging import is_message
from amqp10msg.composite import rows
from amqp10msg.delivery import (
    Accepted,
    Coordinator,
    Declare,
    DeleteOnClose,
    Error,
    Modified,
    Received,
    Rejected,
    Released,
    Source,
    Target,
    TransactionalState,
)
from amqp10msg.interop import corpus
from amqp10msg.notation import from_plain, from_typed, parse_tree, render_text
from amqp10msg.testing import delivery_states, termini
from tests.samples import corpus_cases

MESSAGE = Message(
    "hello",
    header=Header(durable=True),
    properties=Properties(message_id="m-1", to="queue"),
    application_properties={"k": UInt(1)},
)
OCTETS = MESSAGE.encode()


def inspect(*arguments: str, data: bytes = b"") -> Result:
    return CliRunner().invoke(main, ["inspect", *arguments], input=data)


def test_output_is_tree_and_verdict() -> None:
    result = inspect(OCTETS.hex())

    assert (0, "") == (result.exit_code, result.stderr)
    assert f"{render_text(OCTETS)}\n{len(OCTETS)} bytes; no violations\n" == result.stdout
    for word in ("header", "durable", "message-id", '"m-1"', "application-properties", '"hello"'):
        assert word in result.stdout


def test_violations_are_shown_in_place_and_in_the_verdict() -> None:
    octets = bytes.fromhex("005378c10902a101610153a10162") + OCTETS

    result = inspect(octets.hex())

    assert 1 == result.exit_code  # a map of two values in which a value is no encoding
    octets = Message({}, properties=Properties(content_encoding="identity")).encode()

    result = inspect(octets.hex())

    assert 1 == result.exit_code
    assert "! " in result.stdout
    assert "2 errors (content-encoding-without-data, content-encoding-identity)" in result.stdout


def test_a_profile_has_its_own_rules() -> None:
    octets = Message("x", message_annotations={"x-opt-a": None}).encode()

    assert "no violations" in inspect(octets.hex()).stdout
    assert "rabbitmq-annotation-null" in inspect(octets.hex(), "--profile", "rabbitmq-4").stdout


@given(cut=st.integers(1, len(OCTETS) - 1))
def test_truncated_message_is_shown_up_to_the_cut(cut: int) -> None:
    octets = OCTETS[:cut]
    whole = {len(OCTETS[: part.end]) for part in parse_tree(OCTETS).nodes}

    result = inspect(octets.hex())

    assert result.stdout.startswith(render_text(octets))
    if cut in whole:
        errors = [found for found in validate(octets) if found.severity == "error"]
        assert bool(errors) == result.exit_code
    else:
        assert 1 == result.exit_code
        assert "partly unreadable" in result.stdout
        assert result.stderr.startswith("amqp10msg: the argument: at byte ")
        assert 1 == result.stderr.count("\n")


def test_fault_has_offset_and_path() -> None:
    octets = Message("x", properties=Properties(subject="y")).encode()[:-1]

    result = inspect(octets.hex())

    assert 1 == result.exit_code
    place = f"at byte {len(octets)} (amqp-value): "  # where the text would be
    assert f"amqp10msg: the argument: {place}" in result.stderr


def test_fault_in_a_section_hides_no_other_section() -> None:
    octets = Message("x", properties=Properties(subject="\x7f")).encode().replace(b"\x7f", b"\xff")

    result = inspect(octets.hex())

    assert (1, "") == (result.exit_code, result.stderr)
    lines = result.stdout.splitlines()
    (at,) = [number for number, line in enumerate(lines) if "not UTF-8" in line]
    assert "subject" in lines[at - 1]
    assert "amqp-value" in lines[at + 1]
    assert "1 error (invalid-utf8)" in lines[-1]


class TestViews:
    def test_plain_json_reads_back(self) -> None:
        result = inspect("--json", OCTETS.hex())

        assert 0 == result.exit_code
        assert MESSAGE == from_plain(json.loads(result.stdout))

    def test_typed_json_reads_back(self) -> None:
        result = inspect("--typed", OCTETS.hex())

        assert 0 == result.exit_code
        assert MESSAGE == from_typed(json.loads(result.stdout))

    def test_html_is_a_page_with_every_message(self, tmp_path: Path) -> None:
        page = tmp_path / "page.html"

        result = inspect("--html", OCTETS.hex(), Message("other").encode().hex(), "-o", str(page))

        assert (0, "") == (result.exit_code, result.output)
        text = page.read_text(encoding="utf-8")
        assert text.startswith("<!DOCTYPE html>")
        assert '"hello"' in html.unescape(text)
        assert '"other"' in html.unescape(text)
        assert "<h1>2 messages</h1>" in text

    def test_page_has_a_maximum_number_of_messages(self) -> None:
        lines = f'{{"raw": "{OCTETS.hex()}"}}\n' * 101

        result = inspect("--html", data=lines.encode())

        assert (1, "") == (result.exit_code, result.stdout)
        assert (
            "amqp10msg: --html shows at most 100 messages: select fewer with --select\n"
            == result.stderr
        )

    def test_page_shows_malformed_bytes(self) -> None:
        result = inspect("--html", OCTETS[:-1].hex())

        assert 1 == result.exit_code
        assert "<!DOCTYPE html>" in result.stdout
        assert 1 == result.stderr.count("\n")


class TestValues:
    """Inputs that are not messages."""

    @pytest.mark.parametrize(
        "state, what",
        [
            (Accepted(), "accepted, an outcome"),
            (Modified(True, message_annotations={"x-opt-a": 1}), "modified, an outcome"),
            (Rejected(Error("amqp:not-found")), "rejected, an outcome"),
            (Received(1, 5), "received, a delivery state"),
            (TransactionalState(b"t", Released()), "transactional-state, a delivery state"),
            (DeleteOnClose(), "delete-on-close, a lifetime policy"),
            (Error("amqp:not-found"), "error"),
            (Declare(), "declare"),
            (Coordinator(("amqp:local-transactions",)), "coordinator"),
            (Source(address="q", default_outcome=Released()), "source"),
            (Target(), "target"),
        ],
    )
    def test_delivery_states_and_termini_are_named_field_by_field(
        self, state: Any, what: str
    ) -> None:
        octets = delivery.encode(state)

        result = inspect(octets.hex())

        assert (0, "") == (result.exit_code, result.stderr)
        assert f"\n{len(octets)} bytes: {what}; no violations\n" in result.stdout
        assert f"\n{inspect('--format=raw', data=octets).stdout}" == f"\n{result.stdout}"
        fields = {row.wire_name for row in rows(type(state))}
        named = {node.name for _, node in parse_tree(octets).walk()} & fields
        assert all(name in result.stdout for name in named)
        assert named or octets.endswith(b"\x45")

    @given(delivery_states() | termini())
    def test_states_are_shown_in_every_view(self, state: Any) -> None:
        octets = delivery.encode(state)

        result = inspect("--max-fields=500", octets.hex())

        assert (0, "") == (result.exit_code, result.stderr)
        assert "; no violations\n" in result.stdout
        for view in ("--json", "--typed", "--html"):
            assert 0 == inspect(view, octets.hex()).exit_code

    def test_terminus_is_judged_by_role(self) -> None:
        octets = delivery.encode(Source(address="q", dynamic=True, outcomes=("accepted",)))

        shown = inspect(octets.hex()).stdout
        as_receiver = inspect("--role", "receiver", octets.hex())

        assert shown.endswith("bytes: source; 1 error (outcomes)\n")
        assert "! 'accepted' is not a symbolic descriptor" in shown
        assert as_receiver.stdout.endswith(
            "bytes: source; 2 errors (address-in-request, outcomes)\n"
        )
        assert 1 == as_receiver.exit_code
        # A violation stands below its field.
        lines = as_receiver.stdout.splitlines()
        (address,) = (i for i, line in enumerate(lines) if "  address  " in line)
        assert "! the peer chooses the address" in lines[address + 1]
        page = inspect("--html", "--role", "receiver", octets.hex()).stdout
        assert "the peer chooses the address" in page

    @pytest.mark.parametrize(
        "octets, verdict, text",
        [
            ("005323c0020143", "received; 1 error (mandatory-field-missing)", "section-offset"),
            (
                "005333c02401a021" + "00" * 33,
                "declared; 1 error (field-type)",
                "at most 32 bytes",
            ),
            ("005325c00501005324" + "45", "rejected; 1 error (field-type)", "an error"),
        ],
    )
    def test_invalid_composite_is_shown_with_the_reason(
        self, octets: str, verdict: str, text: str
    ) -> None:
        result = inspect(octets)

        assert 1 == result.exit_code
        assert result.stdout.endswith(f"bytes: {verdict}\n")
        assert text in result.stdout

    def test_states_read_as_values_are_not_judged(self) -> None:
        result = inspect("--value", delivery.encode(Accepted()).hex())

        assert result.stdout.endswith("4 bytes, 1 value\n")

    def test_several_values_are_not_judged(self) -> None:
        octets = delivery.encode(Accepted()) + delivery.encode(Released())

        assert inspect(octets.hex()).stdout.endswith("8 bytes, 2 values\n")

    @pytest.mark.parametrize("view, expected", [("--json", 42), ("--typed", ["long", 42])])
    def test_value_is_shown_in_every_view(self, view: str, expected: object) -> None:
        result = inspect(view, encode_value(42).hex())

        assert 0 == result.exit_code
        assert expected == json.loads(result.stdout)

    def test_values_in_sequence(self) -> None:
        result = inspect("--typed", "41", "a1026869")

        assert '["boolean",true]["string","hi"]' == "".join(result.stdout.split())

    def test_sections_can_be_read_as_values(self) -> None:
        result = inspect("--value", "--typed", Message(True).encode().hex())

        assert ["described", ["ulong", 0x77], ["boolean", True]] == json.loads(result.stdout)

    def test_a_value_that_does_not_parse(self) -> None:
        result = inspect("a105")

        assert 1 == result.exit_code
        assert "2 bytes, partly unreadable\n" in result.stdout
        assert result.stderr.startswith("amqp10msg: the argument: at byte 2: ")


def test_several_messages_have_titles_and_a_bad_one_hides_no_other(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text(
        f'{{"raw": "{OCTETS.hex()}", "id": "first"}}\n{{"raw": "{OCTETS[:-1].hex()}"}}\n'
        f'{{"raw": "0"}}\n{{"raw": "{OCTETS.hex()}"}}\n'
    )

    result = inspect(str(file))

    assert 1 == result.exit_code
    *blocks, last = result.stdout.split("\n\n")
    assert [f"{file}:1 (first)", f"{file}:2", f"{file}:4"] == [
        block.splitlines()[0] for block in blocks[::2]
    ]
    assert f"3 messages, {3 * len(OCTETS) - 1} bytes; 1 input could not be read\n" == last
    assert "input" not in inspect(str(file), "--json").stdout
    first, second = result.stderr.splitlines()
    assert first.startswith(f"amqp10msg: {file}:2: at byte ")
    assert second.startswith(f"amqp10msg: {file}:3: 'raw' cannot be decoded: not hex")


def test_output_goes_to_a_file_without_colour_unless_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "tree.txt"

    assert 0 == inspect(OCTETS.hex(), "-o", str(file)).exit_code
    assert b"\x1b" not in file.read_bytes()
    assert 0 == inspect(OCTETS.hex(), "--color", "-o", str(file)).exit_code
    assert b"\x1b[" in file.read_bytes()


def test_array_elements_without_bytes_are_counted_and_not_listed() -> None:
    shown = inspect("f0000000050000012240")

    assert 0 == shown.exit_code
    assert len(shown.stdout.splitlines()) < 60
    assert "258 more values" in shown.stdout


def test_max_fields_limits_the_lines() -> None:
    octets = encode_value([None] * 20_000)

    shown = inspect("--max-fields", "100", octets.hex())

    assert 0 == shown.exit_code
    assert 100 <= len(shown.stdout.splitlines()) <= 110
    assert 10_000 <= len(inspect(octets.hex()).stdout.splitlines()) <= 10_010


def test_every_case_of_the_corpus_is_shown() -> None:
    for case in corpus_cases():
        if not case.data:
            continue  # standard input without anything is a mistake
        if case.kind in corpus.BASIC_KINDS or "basic" in (case.given or {}):
            continue  # bytes of AMQP 0-9-1
        kind = ["--value"] * (case.kind == "value")

        result = inspect("--format=raw", "--max-fields=500", *kind, data=case.data)

        assert result.exception is None or isinstance(result.exception, SystemExit), case.id
        assert result.exit_code in (0, 1), case.id
        if case.typed is not None:
            judged = case.kind == "message" and is_message(case.data)
            found = validate(case.data) if judged else []
            broken = any(violation.severity == "error" for violation in found)
            if case.kind == "composite" and case.error is not None:
                # What has a composite's descriptor is judged as one, other values are shown.
                broken = case.error.rule not in ("not-a-composite", "unknown-composite")
            assert broken == result.exit_code, case.id


def test_empty_message(tmp_path: Path) -> None:
    file = tmp_path / "empty"
    file.touch()

    result = inspect(str(file))

    assert 1 == result.exit_code
    assert "0 bytes; 1 error (body-missing)\n" in result.stdout


@pytest.mark.parametrize(
    "arguments, title",
    [
        (["005377a10178"], "AMQP message: amqp-value"),
        (["00 53 70 45 00 53 77 a1 01 78"], "AMQP message: header, amqp-value"),
        (["00532445"], "AMQP: accepted, an outcome"),
        (["--value", "a10178"], "AMQP values"),
        (["m.bin"], "AMQP message: amqp-value (m.bin)"),
    ],
)
def test_page_of_one_message_is_titled_by_its_content(
    arguments: list[str], title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.bin").write_bytes(bytes.fromhex("005377a10178"))

    result = CliRunner().invoke(main, ["inspect", "--html", *arguments])

    assert f"<title>{title}" in result.output.replace("\u200b", "")


@pytest.mark.parametrize(
    "messages, text",
    [
        ([OCTETS, b"\0\x53\x78\x45"], "1 of 2 messages"),
        ([b"\0\x53\x78\x45"], "1 of 1 message"),
        ([OCTETS], ""),
    ],
)
def test_status_1_with_output_file_has_a_reason(
    tmp_path: Path, messages: list[bytes], text: str
) -> None:
    (tmp_path / "in.jsonl").write_text(
        "".join(json.dumps({"raw": octets.hex()}) + "\n" for octets in messages)
    )
    result = inspect(str(tmp_path / "in.jsonl"), "-o", str(tmp_path / "out.txt"))

    reason = f"amqp10msg: exit status 1: {text} cannot be read or violate a MUST\n" if text else ""
    assert (int(bool(text)), reason) == (result.exit_code, result.stderr)
