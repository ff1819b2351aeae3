"""Commands read all formats of the pipeline, and single messages by number or offset."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg import Message, Properties, files
from amqp10msg.app.cli import main
from amqp10msg.app.cli._input import Inputs, Selection
from amqp10msg.app.inspector.reading import Item
from amqp10msg.basic import BasicProperties, encode_content_header
from amqp10msg.files import recognition
from tests import captures

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "tests" / "vectors" / "capture.pcap"
SOUND = Message("hello", properties=Properties(message_id="m")).encode()
BROKEN = SOUND[:-1]
BASIC = encode_content_header(BasicProperties("text/plain", message_id="m"), 5) + b"hello"
BODIES = st.lists(st.binary(max_size=40), min_size=1, max_size=6)


def run(*arguments: object, data: bytes = b"") -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=data)


def prefixed(messages: list[bytes]) -> bytes:
    return b"".join(len(one).to_bytes(4, "big") + one for one in messages)


def jsonl(messages: list[bytes]) -> bytes:
    return "".join(json.dumps({"raw": one.hex()}) + "\n" for one in messages).encode()


def cborseq(messages: list[bytes]) -> bytes:
    return b"".join(b"\x59" + len(one).to_bytes(2, "big") + one for one in messages)


def parquet(messages: list[bytes], column: str = "wire") -> bytes:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({column: pa.array(messages, pa.binary())}), out)
    octets: bytes = out.getvalue().to_pybytes()
    return octets


WRITERS: dict[str, Callable[[list[bytes]], bytes]] = {
    "prefixed": prefixed,
    "jsonl": jsonl,
    "cborseq": cborseq,
    "parquet": parquet,
    "raw column": lambda messages: parquet(messages, "raw"),
    "hex lines": lambda messages: "\n".join(one.hex() for one in messages).encode(),
    "gzip": lambda messages: gzip.compress(prefixed(messages), mtime=0),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reader")


@pytest.mark.parametrize("form", WRITERS)
@given(bodies=BODIES, data=st.data())
def test_every_format_is_detected_and_messages_have_name_and_offset(
    folder: Path, form: str, bodies: list[bytes], data: st.DataObject
) -> None:
    messages = [Message(body).encode() for body in bodies]
    path = folder / "file"
    path.write_bytes(WRITERS[form](messages))

    found = list(Inputs([str(path)]))

    assert messages == [item.data for item in found]
    assert {""} == {item.fault for item in found}
    item = data.draw(st.sampled_from(found))
    assert [item] == list(Inputs([item.source])) or len(found) == 1
    assert [item.data] == [one.data for one in Inputs([f"{path}:{item.number}"])]
    if item.offset is not None:
        (there,) = Inputs([f"{path}@{item.offset}"])
        assert (f"{path}@{item.offset}", item.data) == (there.source, there.data)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.none() | st.integers(0, 3)), min_size=1, max_size=4)
)
@example([(3, None), (1, None)])
@example([(5, 2), (1, 0)])
def test_select_picks_messages_by_number(
    folder: Path, ranges: list[tuple[int, int | None]]
) -> None:
    """In the order of the input, whatever the order of the numbers and ranges."""
    messages = [Message(b"%d" % number).encode() for number in range(1, 13)]
    path = folder / "selected"
    path.write_bytes(prefixed(messages))
    texts = [f"{first}" if size is None else f"{first}-{first + size}" for first, size in ranges]
    wanted = {first + n for first, size in ranges for n in range((size or 0) + 1)}

    found = Inputs([str(path), str(path)], select=Selection.of(",".join(texts))).messages()

    assert [messages[number - 1] for number in sorted(wanted)] == [item.data for item in found]


@pytest.mark.parametrize(
    "text, ranges",
    [("3", ((3, 3),)), ("3,17-20", ((3, 3), (17, 20))), (" 5- , 1 ", ((5, None), (1, 1)))],
)
def test_selection_syntax(text: str, ranges: tuple[tuple[int, int | None], ...]) -> None:
    assert Selection(ranges) == Selection.of(text)


@pytest.mark.parametrize(
    "place, fault",
    [
        (":3", "no such message: the file has 2"),
        (":0", "no such message: the file has 2"),
        ("@1", "no message begins at byte 1"),
    ],
)
def test_position_without_a_message(tmp_path: Path, place: str, fault: str) -> None:
    path = tmp_path / "hex"
    path.write_text(f"{SOUND.hex()}\n{SOUND.hex()}\n")

    assert [Item(f"{path}{place}", fault=fault)] == list(Inputs([f"{path}{place}"]))


def test_file_named_like_a_position_takes_precedence(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(BROKEN)
    (tmp_path / "a:1").write_bytes(SOUND)

    assert [SOUND] == [item.data for item in Inputs([str(tmp_path / "a:1")])]


def test_selection_without_a_match_is_an_error() -> None:
    with pytest.raises(click.ClickException, match="--select matches no message: the input has 1"):
        list(Inputs([SOUND.hex()], select=Selection.of("2")).messages())


class TestCaptures:
    def test_capture_has_the_messages_of_files_reader(self) -> None:
        records = [record for record in files.read(CAPTURE) if record.protocol == "1.0"]
        found = [item for item in Inputs([str(CAPTURE)]) if item.data]

        assert [record.wire for record in records] == [item.data for item in found]
        assert len(records) > 3

    def test_basic_messages_are_refused_by_other_commands(self) -> None:
        basic = [record for record in files.read(CAPTURE) if record.content_header]
        refused = [item for item in Inputs([str(CAPTURE)]) if "AMQP 0-9-1" in item.fault]
        taken = [i for i in Inputs([str(CAPTURE)], basic=True) if i.data[:2] == b"\0\x3c"]

        assert basic
        assert len(basic) == len(refused) == len(taken)
        assert (basic[0].content_header or b"") + (basic[0].payload or b"") == taken[0].data

    def test_messages_of_the_other_protocol_are_counted_apart(self) -> None:
        checked = run("validate", CAPTURE)
        counts = json.loads(run("validate", "--json", CAPTURE).stdout.splitlines()[-1])["summary"]
        shown = run("inspect", CAPTURE)

        assert (0, 0) == (checked.exit_code, shown.exit_code)
        note = "4 messages of AMQP 0-9-1 not {}: amqp10msg translate --to 1.0 reads them"
        text = f"8 messages, no violations; {note.format('checked')}"
        assert text in " ".join(checked.stdout.split())
        assert note.format("shown") in shown.stderr
        names = ("messages", "sound", "failed", "unreadable", "other_protocol")
        assert [8, 8, 0, 0, 4] == [counts[name] for name in names]

    @pytest.mark.parametrize("command", ["validate", "inspect"])
    def test_only_messages_of_the_other_protocol_are_an_error(self, command: str) -> None:
        result = run(command, f"{CAPTURE}:9")

        assert 1 == result.exit_code
        assert "1 message of AMQP 0-9-1 not" in result.output
        assert ("no messages; 1 message of" in result.output) == (command == "validate")

    @pytest.mark.parametrize("bodies, lost", [([SOUND] * 3, 1), ([SOUND] * 200, 1)])
    def test_lost_packets_of_a_capture_are_counted_and_named(
        self, tmp_path: Path, bodies: list[bytes], lost: int
    ) -> None:
        octets = captures.stream_of(bodies)
        start = octets.index(SOUND) + len(SOUND)  # after the first message
        size = len(captures.transfer(0, SOUND, 1))
        pieces = [
            captures.Piece(0, b"", 0x02),
            captures.Piece(1, octets[:start]),
            captures.Piece(1 + start + size, octets[start + size :]),
        ]
        path = tmp_path / "in.pcap"
        path.write_bytes(captures.pcap([captures.packet(piece) for piece in pieces]))

        checked, shown = run("validate", path), run("inspect", path)

        assert (1, 1) == (checked.exit_code, shown.exit_code)
        places = f"{lost} damaged place, where messages may be missing"
        sound = f"{len(bodies) - 1} messages, no violations"
        assert f"{sound}; {places}" in " ".join(checked.stdout.split())
        assert f"error: {size} bytes are missing in the capture" in checked.stdout
        assert places in shown.stderr
        summary = json.loads(run("validate", "--json", path).stdout.splitlines()[-1])["summary"]
        assert [len(bodies) - 1, 0, lost] == [
            summary[name] for name in ("messages", "unreadable", "damaged")
        ]
        assert ["damaged-file"] == [*summary["rules"]]

    def test_translate_uses_exchange_and_routing_key_of_a_capture(self) -> None:
        result = run("translate", "--to", "1.0", "--json", CAPTURE)

        records = [json.loads(line) for line in result.stdout.splitlines()]
        made = [Message.decode(bytes.fromhex(one["raw"])) for one in records if "raw" in one]
        assert made
        assert any("AMQP 1.0 already" in one.get("error", "") for one in records)


def test_quarantine_messages_keep_their_source(tmp_path: Path) -> None:
    jobs = pytest.importorskip("amqp10msg.jobs")
    source = tmp_path / "in.jsonl"
    source.write_bytes(jsonl([SOUND, BROKEN, SOUND[:-2]]))
    jobs.run(source, tmp_path / "out", jobs.Job("decode"))

    found = list(Inputs([str(tmp_path / "out" / "quarantine")]))

    assert [BROKEN, SOUND[:-2]] == [item.data for item in found]
    (there,) = Inputs([found[1].source.partition(" (")[2].rstrip(")")])
    assert SOUND[:-2] == there.data
    assert [SOUND[:-2]] == [item.data for item in Inputs([found[1].source.partition(" (")[0]])]


def test_unreadable_quarantine_rows_stay_unreadable(tmp_path: Path) -> None:
    jobs = pytest.importorskip("amqp10msg.jobs")
    source = tmp_path / "in.jsonl"
    source.write_bytes(b'{"raw": "0"}\n')
    jobs.run(source, tmp_path / "out", jobs.Job("decode"))

    (item,) = Inputs([str(tmp_path / "out" / "quarantine")])

    assert item.fault.startswith("not a record: 'raw' cannot be decoded: not hex")


@pytest.mark.parametrize(
    "column, fault",
    [
        ("other", "no column wire or raw with encoded messages found; the columns are other"),
        ("wire", "the column wire must contain bytes"),
    ],
)
def test_parquet_without_messages(tmp_path: Path, column: str, fault: str) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({column: ["text"]}), tmp_path / "t.parquet")
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 and no more")

    bad, none = Inputs([str(tmp_path)])

    assert bad.fault.startswith("not a Parquet file, or damaged: ")
    assert fault == none.fault


def test_parquet_from_a_pipe_is_a_fault_with_advice() -> None:
    result = run("validate", "--format", "parquet", data=gzip.compress(parquet([SOUND])))

    assert 1 == result.exit_code
    assert "not a Parquet file" in result.stdout


def test_inspect_accepts_the_names_printed_by_validate(tmp_path: Path) -> None:
    path = tmp_path / "fail.jsonl"
    path.write_bytes(jsonl([BROKEN, SOUND, BROKEN]))
    judged = run("validate", "--json", path).stdout.splitlines()
    names = [json.loads(line)["source"] for line in judged[:-1]]

    assert [f"{path}:{line}" for line in (1, 2, 3)] == names
    shown = run("inspect", names[1])
    assert (0, True) == (shown.exit_code, '"hello"' in shown.stdout)
    assert 1 == run("inspect", names[0]).exit_code
    assert SOUND.hex() == run("convert", "--out", "hex", names[1]).stdout.strip()


def test_messages_that_pass_a_filter_are_written(tmp_path: Path) -> None:
    other = Message("x", properties=Properties(subject="s")).encode()
    source = tmp_path / "all.bin"
    source.write_bytes(prefixed([SOUND, other, SOUND, BROKEN]))
    kept = tmp_path / "kept"

    result = run("filter", "JMSType IS NULL", source, "-o", kept, "--out", "prefixed")

    assert 1 == result.exit_code  # one cannot be read
    assert prefixed([SOUND, SOUND]) == kept.read_bytes()
    assert "4 messages: 2 passed, 1 did not, 1 not readable" in result.stdout
    piped = run("filter", "JMSType IS NULL", source, "-o", "-", "--out", "hex")
    assert f"{SOUND.hex()}\n" * 2 == piped.stdout
    assert "2 passed" in piped.stderr
    run("filter", "JMSType = 'no such'", source, "-o", kept)
    assert b"" == kept.read_bytes()


class TestHints:
    """Errors name the actual format of the input, and the option or command to use."""

    @pytest.mark.parametrize(
        "form, octets",
        [
            ("raw", SOUND),
            ("prefixed", prefixed([SOUND])),
            ("prefixed", prefixed([b"", BASIC])),
            ("cborseq", cborseq([SOUND])),
            ("pcap", CAPTURE.read_bytes()[:64]),
        ],
    )
    def test_format_is_recognised_from_the_first_bytes(self, form: str, octets: bytes) -> None:
        assert form == recognition.form_of_head(octets)
        assert "" == recognition.advice(octets, form)
        assert f"read {'them' if form == 'prefixed' else 'it'} as {form}" in recognition.advice(
            octets
        )

    @given(octets=st.binary(max_size=recognition.HEAD_SIZE))
    def test_advice_on_anything_is_one_line(self, octets: bytes) -> None:
        assert "\n" not in recognition.advice(octets)

    @pytest.mark.parametrize(
        "command, octets, hint",
        [
            (["validate", "-f", "raw"], SOUND.hex().encode(), "these are hex digits"),
            (["inspect", "-f", "raw"], SOUND.hex().encode(), "these are hex digits"),
            (["inspect", "-f", "raw"], CAPTURE.read_bytes(), "read it as pcap"),
            (["validate", "-f", "prefixed"], CAPTURE.read_bytes(), "read it as pcap"),
            (["validate", "-f", "prefixed"], SOUND, "this is one message"),
            (["inspect"], BASIC, "translate --to 1.0"),
            (["translate", "--to", "1.0"], SOUND, "use --to 0-9-1"),
            (["translate", "--to", "0-9-1"], BASIC, "use --to 1.0"),
        ],
    )
    def test_command_fault_has_a_hint(self, command: list[str], octets: bytes, hint: str) -> None:
        result = run(*command, data=octets)

        assert 1 == result.exit_code
        assert hint in result.output

    def test_pipeline_fault_has_a_hint(self, tmp_path: Path) -> None:
        pytest.importorskip("pyarrow")
        (tmp_path / "hex.txt").write_text(SOUND.hex())
        (tmp_path / "hi.bin").write_bytes(SOUND)

        unknown = run("pipeline", "decode", tmp_path / "hex.txt", tmp_path / "a")
        named = run("pipeline", "decode", "-f", "raw", tmp_path / "hex.txt", tmp_path / "b")

        assert (1, True) == (unknown.exit_code, "these are hex digits" in unknown.stdout)
        assert (1, True) == (named.exit_code, "these are hex digits" in named.stdout)
        assert 0 == run("pipeline", "decode", tmp_path / "hi.bin", tmp_path / "c").exit_code


@pytest.mark.parametrize(
    "text, octets", [('"hi"', "a1026869"), ("5", "5505"), ("true", "41"), ('{"body": 1}', None)]
)
def test_encode_takes_any_json(text: str, octets: str | None) -> None:
    result = run("encode", text)

    assert 0 == result.exit_code, result.output
    assert octets in (None, result.stdout.strip())
    assert result.stdout == run("encode", data=text.encode()).stdout
