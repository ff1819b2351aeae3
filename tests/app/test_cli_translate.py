"""``amqp10msg translate`` and ``diff-profiles``: round trips, losses, exit statuses."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner, Result
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amqp10msg import Described, Header, Message, Properties, Symbol, ULong, encode_value
from amqp10msg.app.cli import main
from amqp10msg.app.inspector.protocols import is_basic
from amqp10msg.app.inspector.reading import Item
from amqp10msg.basic import BasicProperties, FieldTable, encode_content_header
from amqp10msg.files import read
from amqp10msg.testing import messages
from amqp10msg.translate import to_basic

pytestmark = pytest.mark.once

PROPERTIES = BasicProperties(
    "text/plain", headers={"a": 1, "x-t": [1]}, app_id="app", message_id="m", cluster_id="c"
)
BASIC = encode_content_header(PROPERTIES, 5) + b"hello"
# Short strings of 0-9-1 have at most 255 bytes.
TEXTS = st.text(st.characters(codec="utf-8"), max_size=60)
MESSAGE = Message(b"hi", properties=Properties(message_id=ULong(5), subject="s"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_round_trip(tmp_path: Path) -> None:
    there = tmp_path / "there.jsonl"
    back = tmp_path / "back.jsonl"
    first = run("translate", "--to", "1.0", BASIC.hex(), "-o", str(there))
    second = run("translate", "--to", "0-9-1", str(there), "-o", str(back))

    assert (0, 0) == (first.exit_code, second.exit_code), first.output + second.output
    assert BASIC.hex() == json.loads(back.read_text())["raw"]


@settings(max_examples=20)
@example(Message(b"x"), ("e", "k"), False)
@example(Message(b"x"), ("", "k"), True)
@given(message=messages(), names=st.tuples(TEXTS, TEXTS), redelivered=st.booleans())
def test_translated_file_reads_back_as_the_message_that_was_translated(
    message: Message, names: tuple[str, str], redelivered: bool
) -> None:
    annotations = {"x-exchange": names[0], "x-routing-key": names[1]}
    message = message.evolve(
        message_annotations=annotations, header=Header(delivery_count=int(redelivered))
    )
    expected = to_basic(message).message
    with TemporaryDirectory() as folder:
        file, output = Path(folder, "in.bin"), Path(folder, "out.jsonl")
        file.write_bytes(message.encode())
        result = run("translate", "--to", "0-9-1", str(file), "--format", "raw", "-o", str(output))
        (record,) = read(output)
        # Names in the file are not replaced by the names to assume for files without names.
        back = run("translate", "--to", "1.0", "--exchange", "other", "--json", str(output))

    assert "refused" not in result.output
    header = encode_content_header(expected.properties, len(expected.body))
    assert (header, expected.body) == (record.content_header, record.payload)
    if expected.exchange or expected.routing_key or expected.redelivered:
        found = record.exchange, record.routing_key, record.redelivered
        assert (expected.exchange, expected.routing_key, expected.redelivered) == found
        again = Message.decode(bytes.fromhex(json.loads(back.stdout)["raw"]))
        assert expected == to_basic(again).message


@pytest.mark.parametrize("start", [BASIC[:4], b"\0\x3c\0\1", b"\0\x3c\1\0", b"\0\x3c", b"\0Sp"])
def test_commands_and_readers_recognise_0_9_1_alike(start: bytes, tmp_path: Path) -> None:
    octets = start + BASIC[4:]
    file = tmp_path / "message.bin"
    file.write_bytes(octets)

    (record,) = read(file, "raw")

    assert (record.protocol == "0-9-1") == is_basic(Item("message", octets))


def test_json_has_message_and_losses() -> None:
    result = run("translate", "--to", "0-9-1", "--json", MESSAGE.encode().hex())
    record = json.loads(result.stdout)

    assert 0 == result.exit_code
    assert ["properties.subject"] == [loss["path"] for loss in record["losses"]]
    assert all(loss["recoverable"] for loss in record["losses"])


def test_permanent_loss_is_status_1() -> None:
    result = run("translate", "--to", "0-9-1", "--profile", "rabbitmq-4.3", MESSAGE.encode().hex())

    assert 1 == result.exit_code
    assert "properties.subject" in result.output
    assert "2 values lost" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("--to", "1.0", "--profile", "rabbitmq-4.3", "--strict", BASIC.hex()),
        ("--to", "1.0", "003c0000000000000000000a0000"),
        ("--to", "1.0", "00"),
        ("--to", "0-9-1", "ff"),
    ],
)
def test_a_refused_message_is_status_1(arguments: tuple[str, ...]) -> None:
    result = run("translate", *arguments)

    assert 1 == result.exit_code
    assert "refused" in result.output


def test_profiles_are_compared() -> None:
    result = run("diff-profiles", "--json", BASIC.hex())
    found = json.loads(result.stdout)["profiles"]

    assert 0 == result.exit_code
    assert '"app"' == found["rabbitmq-4.3"]["properties.group-id"]
    assert '"app"' == found["lossless"]["message-annotations['x-opt-basic-app-id']"]
    shown = run("diff-profiles", "-p", "rabbitmq-3.10", "-p", "rabbitmq-4.3", BASIC.hex())
    assert "properties.group-id" in shown.output
    assert "content-type" not in shown.output


def test_equal_profiles_share_a_letter_and_fit_a_terminal() -> None:
    result = CliRunner().invoke(main, ["diff-profiles", BASIC.hex()], env={"COLUMNS": "80"})
    lines = result.stdout.splitlines()

    assert max(map(len, lines)) <= 80
    assert "  A  lossless" in lines
    place = lines.index("  C  rabbitmq-4.0, rabbitmq-4.0-stream, rabbitmq-4.2, rabbitmq-4.3, ")
    assert "rabbitmq-4.3-stream" == lines[place + 1]
    one = run("diff-profiles", "-p", "rabbitmq-4.0", "-p", "rabbitmq-4.3", BASIC.hex())
    assert "all profiles agree: rabbitmq-4.0, rabbitmq-4.3" in one.stdout


def test_profiles_that_refuse_a_message_are_listed_with_the_reason() -> None:
    octets = Message(b"x", message_annotations={"x-a": Described(Symbol("a"), 1)}).encode()

    result = CliRunner().invoke(main, ["diff-profiles", octets.hex()], env={"COLUMNS": "80"})
    lines = result.stdout.splitlines()

    assert max(map(len, lines)) <= 80
    place = lines.index("  B  rabbitmq-3.10, rabbitmq-3.10-stream")
    assert lines[place + 1].startswith("     refused: message-annotations: the connection dies")


@pytest.mark.parametrize(
    "profiles, status, text",
    [
        (["rabbitmq-3.10", "rabbitmq-4.3"], 1, "all profiles refuse it: rabbitmq-3.10"),
        (["lossless", "rabbitmq-4.3"], 0, "  B  rabbitmq-4.3"),
    ],
)
def test_profiles_that_all_refuse_a_message_do_not_agree(
    profiles: list[str], status: int, text: str
) -> None:
    octets = Message("x", user_id=b"somebody").encode()
    options = [part for name in profiles for part in ("-p", name)]

    result = CliRunner().invoke(main, ["diff-profiles", *options, octets.hex()])

    assert status == result.exit_code
    assert text in result.stdout
    assert "agree" not in result.stdout
    assert ('"amqp-1.0"' in result.stdout) == ("lossless" in profiles)
    reason = (
        "refused: properties.user-id: the user-id 'somebody' is not the connection's user 'guest'"
    )
    assert reason in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    "user_id, name, option",
    [
        (b"shop", "shop", "shop"),
        (b"a b", "a b", "'a b'"),
        ("é".encode(), "é", "'é'"),
        (b"line\n", "line\\x0a", ""),
        (b"x" * 81, f"{'x' * 80}…", ""),
    ],
)
@pytest.mark.parametrize("source", ["1.0", "0-9-1"])
def test_refused_user_id_is_named_with_the_option(
    user_id: bytes, name: str, option: str, source: str
) -> None:
    command = translate_user_id(user_id, source)

    refused = CliRunner().invoke(main, [*command, "--json"])
    named = CliRunner().invoke(main, [*command, "--user", user_id.decode()])
    skipped = CliRunner().invoke(main, [*command, "--user", ""])

    assert (1, 0, 0) == (refused.exit_code, named.exit_code, skipped.exit_code)
    advice = f"set --user {option}, or --user ''" if option else "set --user ''"
    assert json.loads(refused.stdout)["error"] == (
        f"properties.user-id: refused: the user-id '{name}' is not the connection's user 'guest': "
        f"{advice} to skip the check"
    )


@pytest.mark.parametrize("user_id", [b"", b"\xff", b"a\0b"])
@pytest.mark.parametrize("source", ["1.0", "0-9-1"])
@pytest.mark.parametrize("user", ["guest", ""])
def test_user_id_that_no_user_can_have_is_refused(user_id: bytes, source: str, user: str) -> None:
    command = translate_user_id(user_id, source)

    result = CliRunner().invoke(main, [*command, "--user", user, "--json"])

    assert 1 == result.exit_code
    assert json.loads(result.stdout)["error"] == (
        "properties.user-id: refused: no user can have this name"
    )


def translate_user_id(user_id: bytes, source: str) -> list[str]:
    """Return the arguments that translate a message of a protocol with a user-id."""
    options = ["--profile", "rabbitmq-4.3", "--to"]
    if source == "1.0":
        return ["translate", *options, "0-9-1", Message(b"x", user_id=user_id).encode().hex()]
    text = user_id.decode("utf-8", "surrogateescape")
    octets = encode_content_header(BasicProperties(user_id=text), 1) + b"x"
    return ["translate", *options, "1.0", octets.hex()]


def test_many_messages_are_summarised() -> None:
    options = ("translate", "--to", "1.0", "--profile", "rabbitmq-4.0")
    lines = "".join(json.dumps({"raw": BASIC.hex()}) + "\n" for _ in range(50))
    octets = f"{lines}{json.dumps({'raw': MESSAGE.encode().hex()})}\n"

    total = CliRunner().invoke(main, [*options], input=octets)
    each = CliRunner().invoke(main, [*options, "--each"], input=octets)

    assert 1 == total.exit_code == each.exit_code
    rows = [line.split() for line in total.stdout.splitlines()]
    assert ["50", "standard", "input:1"] in [row[4:7] for row in rows]
    assert 1 == sum("refused: at byte 0: the message is AMQP 1.0" in line
                    for line in total.stdout.splitlines())  # fmt: skip
    assert (
        "51 messages: 0 without permanent loss, 50 with permanent loss, 1 refused" in total.stdout
    )
    assert len(total.stdout.splitlines()) < 10
    assert 50 == each.stdout.count("1 value lost")


def test_piped_lines_are_not_wrapped() -> None:
    properties = BasicProperties(app_id="a" * 50, cluster_id="c" * 50)
    octets = encode_content_header(properties, 0)

    result = run("translate", "--to", "1.0", "--profile", "rabbitmq-4.3", octets.hex())

    assert sum("a" * 50 in line for line in result.stdout.splitlines()) == 1
    assert "1.0 has no such field" in result.stdout


def test_profiles_of_a_message_that_a_broker_refuses() -> None:
    octets = Message().encode() or b"\0\x53\x70\x45"
    result = run("diff-profiles", "--json", octets.hex())

    assert "refused" in json.loads(result.stdout)["profiles"]["rabbitmq-4.3"]


def test_long_value_is_cut_in_the_table_and_complete_in_json() -> None:
    octets = Message("hello", footer={"x-opt-k": "long" * 300}).encode().hex()

    shown = run("diff-profiles", octets)
    record = json.loads(run("diff-profiles", "--json", octets).stdout)

    longest = max(
        (value for made in record["profiles"].values() for value in made.values()), key=len
    )
    assert 0 == shown.exit_code
    assert len(longest) > 500
    assert longest[:20] in shown.stdout.replace("\n", "")
    assert len(shown.stdout.splitlines()) < 60
    assert "…" in shown.stdout


#: 1.0 messages as RabbitMQ 4.0 and 4.3 deliver them: the broker's marks are all that is dropped.
DELIVERED = [
    Message(b"x", message_annotations={"x-exchange": "", "x-routing-key": "q"}),
    Message(b"x", message_annotations={"x-routing-key": "q", "x-exchange": "e", "x-opt-a": 1}),
]


@pytest.mark.parametrize("profile", ["rabbitmq-4.0", "rabbitmq-4.3"])
@pytest.mark.parametrize("message", DELIVERED)
def test_broker_annotations_are_listed_but_do_not_count(message: Message, profile: str) -> None:
    arguments = ("translate", "--to", "0-9-1", "--profile", profile, message.encode().hex())
    plain, strict, record = run(*arguments), run(*arguments, "--strict"), run(*arguments, "--json")

    assert (0, 0, 0) == (plain.exit_code, strict.exit_code, record.exit_code), strict.output
    assert "no permanent loss" in plain.output
    assert "a mark of the broker" in plain.output
    assert {"broker"} == {loss["owner"] for loss in json.loads(record.stdout)["losses"]}


def test_sender_data_counts_next_to_broker_annotations() -> None:
    message = DELIVERED[0].evolve(properties=Properties(to="there"))
    arguments = ("translate", "--to", "0-9-1", "--profile", "rabbitmq-4.3")
    plain = run(*arguments, message.encode().hex())
    many = run(*arguments, message.encode().hex(), DELIVERED[1].encode().hex())
    strict = run(*arguments, "--strict", message.encode().hex())

    assert (1, 1, 1) == (plain.exit_code, many.exit_code, strict.exit_code)
    assert "1 value lost" in plain.output
    assert "2 messages: 1 without permanent loss, 1 with permanent" in many.output
    assert "properties.to: would be lost" in strict.output


def test_header_added_by_rabbitmq_3_10_is_a_broker_annotation() -> None:
    octets = bytes.fromhex("005370c006054140404140") + Message(b"x").encode()
    result = run("translate", "--to", "0-9-1", "--strict", octets.hex())

    assert 0 == result.exit_code
    assert "a mark of the broker" in result.output
    kept = run(
        "translate", "--to", "0-9-1", Message(b"x", header=Header(priority=7)).encode().hex()
    )
    assert "no loss" in kept.output


def test_each_value_has_one_recoverable_loss() -> None:
    annotations = {"x-list": ["a", 1], "x-map": {"k": b"v"}, "x-bytes": b"text", "x-list-2": [[1]]}
    message = Message(b"x", message_annotations=annotations)
    result = run("translate", "--to", "0-9-1", "--json", message.encode().hex())
    losses = json.loads(result.stdout)["losses"]

    assert [f"message-annotations[{key!r}]" for key in annotations] == [x["path"] for x in losses]
    assert {("retyped", True)} == {(loss["action"], loss["recoverable"]) for loss in losses}


#: Bodies that are no sections of AMQP 1.0, and the byte at which reading them fails.
NO_SECTIONS = [(b"Test", 2), (b"hello", 0), (b'{"a": 1}', 0), (Message(b"x").encode() + b"\x3f", 6)]


@pytest.mark.parametrize("profile", ["rabbitmq-3.10", "rabbitmq-4.0", "rabbitmq-4.3"])
@pytest.mark.parametrize("body, offset", NO_SECTIONS)
def test_type_claiming_sections_is_reported_if_body_has_none(
    profile: str, body: bytes, offset: int
) -> None:
    content = encode_content_header(BasicProperties(type="amqp-1.0"), len(body)) + body
    result = run("translate", "--to", "1.0", "--profile", profile, "--json", content.hex())
    error = json.loads(result.stdout)["error"]

    if profile == "rabbitmq-3.10" and body == b"Test":
        offset = 3  # this version does not read it, and its consumers fail at a later byte
    assert 1 == result.exit_code
    assert error.startswith("body: the type 'amqp-1.0' makes RabbitMQ read the body as encoded")
    assert f"fails at byte {offset} of the body: " in error


def test_type_beside_sections_that_rabbitmq_3_10_saved() -> None:
    """A message that RabbitMQ 3.10 made of one of 1.0, and of which somebody replaced the body."""
    saved = encode_value(Properties(message_id="m", content_encoding="UTF-8")).decode(
        "utf-8", "surrogateescape"
    )
    headers = FieldTable({"x-amqp-1.0-properties": saved})
    properties = BasicProperties(content_encoding="UTF-8", headers=headers, type="amqp-1.0")
    content = encode_content_header(properties, 4) + b"Test"
    result = run("translate", "--to", "1.0", "--profile", "rabbitmq-4.3", "--json", content.hex())

    assert 1 == result.exit_code
    assert json.loads(result.stdout)["error"].startswith(
        "body: the type 'amqp-1.0' makes RabbitMQ read the body"
    )
