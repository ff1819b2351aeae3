"""`amqp10msg.files`: containers and captures, and what is damaged in them."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from amqp10msg import DecodeError, Limits, Message, Properties, columns, files, jobs
from amqp10msg.app.cli._input import Inputs
from amqp10msg.atomic_files import write_whole
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    decode_content_header,
    encode_content_header,
)
from amqp10msg.files import Record, containers, stores, tables
from amqp10msg.files.text import octets_of_hex
from amqp10msg.jobs import parquet
from amqp10msg.jobs.inputs import Reading
from amqp10msg.testing import basic_messages
from amqp10msg.wire.reprs import encodable
from fuzz.files import FORMS, run, run_bounded
from tests.effort import cost
from tests.samples import shortened

pytestmark = pytest.mark.once

MESSAGES = st.lists(st.binary(max_size=80), min_size=1, max_size=12)


def test_invalid_utf8_is_escaped(tmp_path: Path) -> None:
    write_whole(tmp_path / "made.json", '["é\ud800"]')

    assert ["é\ud800"] == json.loads((tmp_path / "made.json").read_bytes())


def prefixed(messages: list[bytes]) -> bytes:
    return b"".join(len(m).to_bytes(4, "big") + m for m in messages)


def jsonl(messages: list[bytes]) -> bytes:
    return "".join(json.dumps({"raw": m.hex()}) + "\n" for m in messages).encode()


SECTION = b"\x00\x53\x75\xa0\x00"
CONTAINERS = {"prefixed": "bin", "jsonl": "jsonl", "cborseq": "cborseq", "raw": "bin"}


@given(basic=basic_messages(), form=st.sampled_from(sorted(CONTAINERS)))
def test_0_9_1_message_is_recognised_in_every_form(basic: BasicMessage, form: str) -> None:
    header = encode_content_header(basic.properties, len(basic.body))
    message = header + basic.body
    octets = message if form == "raw" else globals()[form]([message])

    (record,) = files.read_stream(io.BufferedReader(io.BytesIO(octets)), form)

    assert ("0-9-1", None, "") == (record.protocol, record.wire, record.fault)
    assert (header, basic.body) == (record.content_header, record.payload)


@pytest.mark.parametrize("form, suffix", CONTAINERS.items())
def test_file_of_one_0_9_1_message_has_its_form(tmp_path: Path, form: str, suffix: str) -> None:
    message = encode_content_header(BasicProperties(), 1) + b"x"
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(message if form == "raw" else globals()[form]([message]))

    assert form == files.form_of(path)


def test_large_first_message_is_not_read_as_a_content_header(tmp_path: Path) -> None:
    """The size of 3,932,160 bytes has the bytes with which a content header begins."""
    path = tmp_path / "a.bin"
    path.write_bytes(prefixed([SECTION + bytes(0x3C0000 - len(SECTION))]))

    assert "prefixed" == files.form_of(path)


def test_truncated_0_9_1_message_is_a_fault() -> None:
    octets = encode_content_header(BasicProperties(), 5) + b"x"

    (record,) = files.read_stream(io.BufferedReader(io.BytesIO(prefixed([octets]))), "prefixed")

    assert ("0-9-1", octets) == (record.protocol, record.wire)
    assert "declares a body of 5 bytes, but header and body have 15" in record.fault


@pytest.mark.parametrize("size", range(4, 14))
def test_cut_content_header_names_its_incomplete_part(size: int) -> None:
    octets = encode_content_header(BasicProperties(), 0)[:size]
    with pytest.raises(DecodeError) as caught:
        decode_content_header(octets)

    (record,) = files.read_stream(io.BufferedReader(io.BytesIO(prefixed([octets]))), "prefixed")

    assert ("0-9-1", octets) == (record.protocol, record.wire)
    assert f"the content header is cut off after {size} bytes" in record.fault
    assert str(caught.value) in record.fault


@pytest.mark.parametrize(
    "members, fault",
    [
        ({"exchange": 5}, "'exchange' must be a string, not 5"),
        ({"redelivered": "yes"}, "'redelivered' must be true or false, not 'yes'"),
        ({"protocol": "0-9-1", "raw": "00"}, "does not begin with a content header"),
    ],
)
def test_invalid_0_9_1_members_of_a_line_are_a_fault(members: dict[str, Any], fault: str) -> None:
    raw = encode_content_header(BasicProperties(), 0).hex()
    line = json.dumps({"raw": raw, **members}).encode()

    (record,) = files.read_stream(io.BufferedReader(io.BytesIO(line + b"\n")), "jsonl")

    assert fault in record.fault


AMQP10_MEMBERS = {
    "message_format": st.integers(0, 2**32 - 1),
    "delivery_tag": st.binary(max_size=8),
    "address": st.text(max_size=8).map(encodable),
}
BASIC_MEMBERS = {
    "exchange": st.text(max_size=8).map(encodable),
    "routing_key": st.text(max_size=8).map(encodable),
    "redelivered": st.booleans(),
}


@pytest.mark.parametrize(
    "octets, members",
    [
        (SECTION, AMQP10_MEMBERS),
        (encode_content_header(BasicProperties(), 0), AMQP10_MEMBERS | BASIC_MEMBERS),
    ],
)
@given(data=st.data())
def test_json_record_keeps_what_the_file_states(
    octets: bytes, members: dict[str, Any], data: st.DataObject
) -> None:
    fields = data.draw(st.fixed_dictionaries({}, optional=members))
    document = containers.record_to_document(octets, Record(0, octets, **fields))

    line = json.dumps(document).encode()
    (record,) = files.read_stream(io.BufferedReader(io.BytesIO(line + b"\n")), "jsonl")

    assert {**dict.fromkeys(members), **fields} == {name: getattr(record, name) for name in members}


def cbor_head(size: int) -> bytes:
    """The head of a CBOR byte string (RFC 8949, 3)."""
    if size < 24:
        return bytes([0x40 | size])
    return bytes([0x58, size]) if size < 256 else b"\x59" + size.to_bytes(2, "big")


def cborseq(messages: list[bytes]) -> bytes:
    return b"".join(cbor_head(len(m)) + m for m in messages)


WRITERS = {"prefixed": prefixed, "jsonl": jsonl, "cborseq": cborseq}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.mark.parametrize("form", WRITERS)
@given(messages=MESSAGES, octets=st.integers(1, 200))
def test_ranges_contain_every_message_once(
    folder: Path, form: str, messages: list[bytes], octets: int
) -> None:
    """And each range contains at least one message."""
    path = folder / f"m.{form}"
    path.write_bytes(WRITERS[form](messages))

    whole = list(files.read(path, form))
    parts = [
        list(files.read(r.path, r.form, start=r.start, stop=r.stop))
        for r in files.ranges(path, form, octets=octets)
    ]

    assert messages == [record.wire for record in whole]
    assert whole == [record for part in parts for record in part]
    assert all(parts)
    assert {""} == {record.fault for record in whole}


@pytest.mark.parametrize("form", WRITERS)
@given(messages=MESSAGES, data=st.data())
def test_truncated_file_is_read_up_to_a_fault(
    folder: Path, form: str, messages: list[bytes], data: st.DataObject
) -> None:
    octets = WRITERS[form](messages)
    end = data.draw(st.integers(0, len(octets) - 1))
    path = folder / f"cut.{form}"
    path.write_bytes(octets[:end])

    found = list(files.read(path, form))

    good = [record.wire for record in found if not record.fault]
    assert messages[: len(good)] == good
    assert len([record for record in found if record.fault]) <= 1
    kept = WRITERS[form](messages[: len(good)])
    # Only whole records are missing, or the last one says what is wrong with it.
    assert kept == octets[:end] or found[-1].fault or octets[:end] + b"\n" == kept


def test_bytes_of_a_truncated_message_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "cut.prefixed"
    path.write_bytes(prefixed([b"one", b"twotwo"])[:-2])

    assert [
        Record(0, b"one"),
        Record(7, b"twot", "truncated: 4 of 6 bytes", ends=True),
    ] == list(files.read(path))


@pytest.mark.parametrize(
    "octets, fault",
    [
        (b"\x00\x00", "its size is truncated"),
        (b"\x00\x00\x00\x65" + bytes(101), "larger than 100 bytes"),
    ],
)
def test_faults_of_sizes(tmp_path: Path, octets: bytes, fault: str) -> None:
    path = tmp_path / "m.prefixed"
    path.write_bytes(octets)

    assert [fault] == [record.fault for record in files.read(path, max_size=100)]


def test_hex_without_separators_is_fast(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(jsonl([bytes(range(256)) + bytes(44)] * 1_000))

    # A thousandth of a unit is about a microsecond; a search takes ninety.
    assert cost(lambda: [*files.read(path)], enough=25) <= 25


@given(st.binary(max_size=20), st.lists(st.sampled_from(["", " ", "\t", ":", " 0x", "\\x"])))
def test_separators_in_hex_are_ignored(octets: bytes, between: list[str]) -> None:
    pairs = [f"{octet:02x}" for octet in octets]
    marks = (between * len(pairs))[: len(pairs)] or [""] * len(pairs)

    assert octets == octets_of_hex("".join(m + p for m, p in zip(marks, pairs, strict=True)))
    assert octets == octets_of_hex("".join(pairs))


@pytest.mark.parametrize(
    "line, fault",
    [
        ("no JSON", "not a record: not JSON: Expecting value"),
        ('{"x": 1}', "not a record: no object with one of the keys raw, hex, base64, data_base64"),
        ('{"raw": "0"}', "not a record: 'raw' cannot be decoded: not hex: 1 is an odd number"),
        ("[" * 100_000, "not a record: "),
    ],
)
def test_invalid_line_does_not_affect_other_lines(tmp_path: Path, line: str, fault: str) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(f'{{"raw": "00"}}\n{line}\n\n{{"base64": "/w=="}}\n')

    first, bad, last = files.read(path)

    assert (b"\x00", b"\xff") == (first.wire, last.wire)
    assert bad.fault.startswith(fault)
    assert line.encode() == bad.wire
    assert 14 == bad.offset


@pytest.mark.parametrize(
    "name, value", [("message_format", -1), ("message_format", "0"), ("address", 5)]
)
def test_line_with_an_invalid_field_is_a_fault(tmp_path: Path, name: str, value: Any) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(json.dumps({"raw": "00", name: value}) + "\n")

    (record,) = files.read(path)

    assert f"not a record: {name!r} must be " in record.fault
    assert record.fault.endswith(f", not {value!r}")


def test_line_with_additional_fields(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    more = {"message_format": 7, "delivery_tag": "0102", "address": "q\ud800"}
    path.write_text(json.dumps({"raw": "00", **more}))

    (record,) = files.read(path)

    assert (7, b"\x01\x02", "q\\ud800") == (
        record.message_format,
        record.delivery_tag,
        record.address,
    )


def test_files_may_be_compressed(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl.gz"
    path.write_bytes(gzip.compress(jsonl([b"a", b"b"])))
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(path.read_bytes()[:-4])

    (whole,) = files.ranges(path, octets=1)

    assert [b"a", b"b"] == [r.wire for r in files.read(path, start=whole.start, stop=whole.stop)]
    assert "the gzip file is damaged" in list(files.read(cut))[-1].fault


@pytest.mark.parametrize(
    "name, octets, form",
    [
        ("a.jsonl", b"", "jsonl"),
        ("a", b'{"raw": ""}', "jsonl"),
        ("a.cborseq", b"\x40", "cborseq"),
        ("a.bin", b"\0\0\0\0", "prefixed"),
        ("a.dump", b"\xd4\xc3\xb2\xa1", "pcap"),
        ("a.bin", b"\x0a\x0d\x0d\x0a", "pcap"),
    ],
)
def test_form_is_recognised(tmp_path: Path, name: str, octets: bytes, form: str) -> None:
    path = tmp_path / name
    path.write_bytes(octets)

    assert form == files.form_of(path)


@pytest.mark.parametrize(
    "call, text",
    [
        (files.form_of, "the form of the file is unknown"),
        (lambda p: list(files.read(p, "orc")), "unknown form 'orc'"),
        (lambda p: files.ranges(p, "orc"), "unknown form 'orc'"),
        (lambda p: files.ranges(p, "jsonl", octets=0), "at least 1 byte"),
    ],
)
def test_a_wrong_call(tmp_path: Path, call: Any, text: str) -> None:
    path = tmp_path / "what"
    path.write_bytes(b"?")

    with pytest.raises(ValueError, match=text):
        call(path)


def test_item_other_than_a_byte_string_ends_a_cbor_sequence(tmp_path: Path) -> None:
    path = tmp_path / "m.cborseq"
    path.write_bytes(b"\x41\x00\xa0\x41\x00")

    good, bad = files.read(path)

    assert (b"\x00", b"\xa0\x41\x00") == (good.wire, bad.wire)
    assert bad.fault.startswith("not a byte string: the item begins with a0")
    assert 2 == bad.offset


def test_valid_message_is_read(tmp_path: Path) -> None:
    octets = Message("x", properties=Properties(message_id="m")).encode()
    path = tmp_path / "m.bin"
    path.write_bytes(struct.pack(">I", len(octets)) + octets)

    (record,) = files.read(path)

    assert record.wire is not None
    assert "x" == Message.decode(record.wire).text()


def before_damage(packed: bytes) -> bytes:
    """The content that zlib finds before the first byte that it refuses."""
    inflater = zlib.decompressobj(31)
    content = bytearray()
    with contextlib.suppress(zlib.error):
        for octet in packed:
            content += inflater.decompress(bytes([octet]))
    return bytes(content)


def is_whole(packed: bytes) -> bool:
    try:
        gzip.decompress(packed)
    except (OSError, EOFError, zlib.error):
        return False
    return True


class TestDamagedGzip:
    """What stands before a damage is read, and where it is is said: by files and by commands."""

    @given(messages=MESSAGES, data=st.data())
    def test_cut_off(self, folder: Path, messages: list[bytes], data: st.DataObject) -> None:
        packed = gzip.compress(jsonl(messages), mtime=0)
        cut = packed[: data.draw(st.integers(3, len(packed) - 1))]
        self.check(folder, messages, cut)

    @given(messages=MESSAGES, data=st.data())
    def test_changed(self, folder: Path, messages: list[bytes], data: st.DataObject) -> None:
        packed = bytearray(gzip.compress(jsonl(messages), mtime=0))
        # Not in the header: a name or a time may be anything.
        packed[data.draw(st.integers(10, len(packed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        assume(not is_whole(bytes(packed)))  # the last bits of the compressed part may be anything
        self.check(folder, messages, bytes(packed))

    def check(self, folder: Path, messages: list[bytes], packed: bytes) -> None:
        path = folder / "damaged.jsonl.gz"
        path.write_bytes(packed)
        content = before_damage(packed)
        whole = content.split(b"\n")[:-1]

        *found, last = files.read(path, "jsonl")
        items = list(Inputs([str(path)], "jsonl", files.MAX_SIZE))

        good = [record.wire for record in found if not record.fault]
        assert last.fault.startswith("the gzip file is damaged: ")
        assert len(content) - len(content.rpartition(b"\n")[2]) == last.offset
        assert len([line for line in whole if line.strip()]) == len(found)
        assert last.fault == items[-1].fault
        assert good == [item.data for item in items if not item.fault]
        if jsonl(messages).startswith(content):
            assert messages[: len(whole)] == good

    def test_all_messages_before_gzip_damage_are_read(self, tmp_path: Path) -> None:
        messages = [Message(b"%d" % i * 30).encode() for i in range(20_000)]
        packed = gzip.compress(jsonl(messages))[:-100]
        path = tmp_path / "many.jsonl.gz"
        path.write_bytes(packed)
        lines = before_damage(packed).count(b"\n")

        *found, last = files.read(path)

        assert messages[:lines] == [record.wire for record in found]
        assert "the gzip file is damaged: it is truncated; its content ends at byte " in last.fault

    def test_several_gzip_members_in_one_file(self, tmp_path: Path) -> None:
        path = tmp_path / "two.jsonl.gz"
        path.write_bytes(gzip.compress(jsonl([b"a"])) + bytes(9) + gzip.compress(jsonl([b"b"])))

        assert [b"a", b"b"] == [record.wire for record in files.read(path)]

    def test_bytes_after_the_gzip_data_are_damage(self, tmp_path: Path) -> None:
        path = tmp_path / "more.jsonl.gz"
        path.write_bytes(gzip.compress(jsonl([b"a"])) + b"more")

        good, bad = files.read(path)

        assert b"a" == good.wire
        assert "incorrect header check" in bad.fault


def gzipped(content: bytes, times: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([*(packer.compress(content) for _ in range(times)), packer.flush()])


class TestBombs:
    """Small files that make much."""

    @pytest.mark.parametrize("form", ["raw", "prefixed", "jsonl", "cborseq"])
    def test_expansion_limit_of_a_gzip_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
    ) -> None:
        monkeypatch.setattr(containers, "ALWAYS_ALLOWED_BYTES", 100_000)
        path = tmp_path / "m.gz"
        content = b"" if form == "raw" else WRITERS[form]([bytes(500)])
        path.write_bytes(gzipped(content or bytes(500), 2_000))

        found = list(files.read(path, form))

        made = sum(len(record.wire or b"") for record in found)
        assert (0 if form == "raw" else 500 * 150) <= made < 100_000 + 100 * path.stat().st_size
        assert [True] == [record.ends for record in found if record.fault]
        assert (
            "more than 100,000 bytes plus 100 times its size (if you trust it, decompress"
            in found[-1].fault
        )
        assert [] == [
            r.fault
            for r in files.read(path, form, limits=Limits(expansion_ratio=10_000))
            if r.fault
        ]

    @pytest.mark.parametrize("form, empty", [("prefixed", bytes(4)), ("cborseq", b"\x40")])
    @pytest.mark.parametrize("packed", [False, True])
    def test_records_without_a_byte_are_bounded(
        self, tmp_path: Path, form: str, empty: bytes, packed: bool
    ) -> None:
        path = tmp_path / "m"
        path.write_bytes(gzipped(empty, 200_000) if packed else empty * 200_000)

        found = list(files.read(path, form))

        assert 65_536 + 1 == len(found)
        assert found[-1].ends
        assert found[-1].fault.startswith("more than 65,536 records without a byte")
        assert 6 == len(list(files.read(path, form, limits=Limits(zero_width=5))))

    def test_blank_lines_are_bounded(self, tmp_path: Path) -> None:
        path = tmp_path / "m.jsonl"
        path.write_bytes(b"\n" * 200_000 + jsonl([b"a"]))

        (record,) = files.read(path, "jsonl")

        assert record.fault.startswith("more than 65,536 records without a byte")
        (record,) = files.read(path, "jsonl", limits=Limits(zero_width=200_000))
        assert b"a" == record.wire

    def test_message_is_in_memory_at_most_three_times(self, tmp_path: Path) -> None:
        path = tmp_path / "m.jsonl.gz"
        size = 20_000_000
        path.write_bytes(gzipped(b'{"raw":"' + b"0" * size + b'"}\n', 1))

        tracemalloc.start()
        try:
            (record,) = files.read(path, "jsonl")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

        assert size // 2 == len(record.wire or b"")
        assert peak < 4 * size


def batches_of(path: Path, **options: str) -> Any:
    """Read Parquet as a job does."""
    rows, ranges = parquet.inspect_files([str(path)], str(path), 1 << 40)
    reading = attrs.evolve(Reading.from_options(options), table=rows)
    return (batch for part, _ in ranges for batch in reading.batches((part,)))


def faults_of(path: Path) -> list[str]:
    """Return why a job does not read all of it."""
    found: list[str] = []
    for batch in batches_of(path):
        if parquet.FAULT_COLUMN in batch.schema.names:
            found += batch.column(parquet.FAULT_COLUMN).to_pylist()
    return found


class TestParquet:
    """Tables whose values stand in them once."""

    @pytest.mark.parametrize("column", ["wire", "raw"])
    def test_equal_rows_are_read_few_at_a_time(self, tmp_path: Path, column: str) -> None:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        path = tmp_path / "m.parquet"
        size, rows, small_rows = 2_000_000, 40, 10_000
        # The others are small, so that the mean is.
        values = [*[b"\x00"] * small_rows, *[bytes(size)] * rows]
        pq.write_table(pa.table({column: values}), path, compression="zstd", row_group_size=1 << 20)
        assert path.stat().st_size < 2_000

        tracemalloc.start()
        try:
            lengths = [len(record.wire or b"") for record in files.read(path)]
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

        assert [1] * small_rows + [size] * rows == lengths
        assert peak < 20 * size
        batches = [batch.nbytes for batch in batches_of(path)]
        assert sum(lengths) <= sum(batches)
        assert max(batches) < 20 * size

    def test_row_group_over_the_expansion_limit_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        monkeypatch.setattr(tables, "_ALWAYS_ALLOWED_GROUP_BYTES", 1_000_000)
        path = tmp_path / "m.parquet"
        pq.write_table(pa.table({"wire": [bytes(2_000_000)]}), path, compression="zstd")

        (record,) = files.read(path)

        assert re.match(
            r"row group 0 has 2,000,\d\d\d bytes decompressed, more than 100 times", record.fault
        )
        (said,) = faults_of(path)
        assert re.match(r".*m\.parquet: row group 0: row group 0 has", said)
        assert 1 == len(list(files.read(path, limits=Limits(expansion_ratio=100_000))))
        assert 1 == len(list(batches_of(path, expansionRatio="100000")))

    def test_row_groups_after_a_refused_row_group_are_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        monkeypatch.setattr(tables, "_ALWAYS_ALLOWED_GROUP_BYTES", 1_000_000)
        path = tmp_path / "m.parquet"
        values = [b"a", b"b", bytes(2_000_000), bytes(2_000_000), b"c"]
        pq.write_table(pa.table({"wire": values}), path, compression="zstd", row_group_size=2)

        found = [(record.offset, record.wire) for record in files.read(path) if not record.fault]

        assert [(0, b"a"), (1, b"b"), (4, b"c")] == found
        assert [2] == [record.offset for record in files.read(path) if record.fault]

    @pytest.mark.parametrize("value", [None, b"", b"equal"])
    def test_rows_without_a_byte_are_bounded(self, tmp_path: Path, value: bytes | None) -> None:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        path = tmp_path / "m.parquet"
        rows = 1_200_000
        pq.write_table(pa.table({"wire": pa.repeat(pa.scalar(value, pa.binary()), rows)}), path)
        assert 100 * path.stat().st_size < rows

        said = r"m\.parquet: the file has 1,200,000 rows, more than 100 times the size of the file"
        with pytest.raises(ValueError, match=said):
            next(files.read(path))
        (fault,) = faults_of(path)
        assert re.search(said, fault)
        assert rows == sum(batch.num_rows for batch in batches_of(path, expansionRatio="10000"))

    def test_bytes_of_equal_rows_are_bounded(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        monkeypatch.setattr(tables, "_ALWAYS_ALLOWED_FILE_BYTES", 10_000_000)
        path = tmp_path / "m.parquet"
        equal = pa.array([bytes(100_000)]).dictionary_encode().take(pa.array([0] * 1_000))
        pq.write_table(pa.table({"wire": equal}), path, compression="zstd")

        *good, last = files.read(path)

        assert 0 < sum(len(record.wire or b"") for record in good) <= 10_000_000
        assert last.ends
        assert "the rows have more than 10,000,000 bytes" in last.fault
        (said,) = faults_of(path)
        assert re.search(r"m\.parquet: .*: the rows have more than 10,000,000", said)
        assert 1_000 == len(list(files.read(path, limits=Limits(expansion_ratio=1_000_000))))

    def test_too_large_value_is_a_fault(self, tmp_path: Path) -> None:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        path = tmp_path / "m.parquet"
        pq.write_table(pa.table({"wire": [b"a", b"b" * 2_000, b"c"]}), path)

        found = list(files.read(path, max_size=1_000))

        assert ["", "larger than 1,000 bytes", ""] == [record.fault for record in found]
        assert [b"a", b"b" * 1_024, b"c"] == [record.wire for record in found]

    @pytest.mark.parametrize("kind", ["dictionary", "large dictionary", "view"])
    def test_dictionaries_and_views_are_read(self, tmp_path: Path, kind: str) -> None:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        messages = [Message(b"%d" % (n % 3)).encode() for n in range(9)]
        if kind == "view":
            wire = pa.array([*messages, None], pa.binary_view())
            address = pa.array(["q"] * 10, pa.string_view())
        else:
            wire = pa.array(
                [*messages, None], pa.large_binary() if "large" in kind else pa.binary()
            ).dictionary_encode()
            address = pa.array(["q"] * 10).dictionary_encode()
        path = tmp_path / "in.parquet"
        pq.write_table(pa.table({"wire": wire, "address": address}), path)

        assert [(octets, "q") for octets in messages] == [
            (record.wire, record.address) for record in files.read(path)
        ]
        texts = [str(n % 3) for n in range(9)]
        assert [*texts, None] == columns.decode(wire, ["body_text"])["body_text"].to_pylist()
        for kind_of_job in ("decode", "validate", "profile", "translate"):
            out = tmp_path / kind_of_job
            job = jobs.Job(kind_of_job, to="0-9-1" if kind_of_job == "translate" else "amqp10")
            stats = jobs.run(path, out, job, workers=1)
            assert (9, 0) == (stats.rows, stats.errors)

    def test_dictionary_that_expands_is_refused(self) -> None:
        pa = pytest.importorskip("pyarrow")
        few = pa.DictionaryArray.from_arrays([0] * 1_000, pa.array([bytes(1_000_000)]))

        with pytest.raises(columns.TooMuchError, match="have 1,000,000,000 bytes"):
            columns.decode(few, ["body"])

    def test_damage_skips_only_its_row_group(self, tmp_path: Path) -> None:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        path = tmp_path / "m.parquet"
        values = [b"a", b"b", b"c" * 100, b"d" * 100, b"e"]
        pq.write_table(pa.table({"wire": values}), path, compression="none", row_group_size=2)
        chunk = pq.ParquetFile(path).metadata.row_group(1).column(0)
        octets = bytearray(path.read_bytes())
        begin = chunk.dictionary_page_offset
        octets[begin : begin + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
        path.write_bytes(octets)

        found = list(files.read(path))

        assert [(0, b"a"), (1, b"b"), (4, b"e")] == [
            (record.offset, record.wire) for record in found if not record.fault
        ]
        (fault,) = [record.fault for record in found if record.fault]
        assert "row group 1 cannot be read: " in fault
        assert fault.endswith("; its rows from 2 to 3 are skipped")

    @pytest.mark.parametrize("is_dictionary", [False, True])
    def test_invalid_utf8_skips_no_row(self, tmp_path: Path, is_dictionary: bool) -> None:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        ends = pa.py_buffer(struct.pack("=3i", 0, 1, 3))
        text = pa.Array.from_buffers(pa.string(), 2, [None, ends, pa.py_buffer(b"q\xffr")])
        path = tmp_path / "m.parquet"
        address = text.dictionary_encode() if is_dictionary else text
        pq.write_table(pa.table({"wire": [b"a", b"b"], "address": address}), path)

        assert [(b"a", "q"), (b"b", "\\xffr")] == [
            (record.wire, record.address) for record in files.read(path)
        ]


@pytest.mark.parametrize(
    "form, octets",
    [("prefixed", b"\x0f\xff\xff\xffab"), ("cborseq", b"\x5a\x0f\xff\xff\xffab"), ("raw", b"ab")],
)
def test_damaged_size_allocates_no_memory(tmp_path: Path, form: str, octets: bytes) -> None:
    path = tmp_path / "m"
    path.write_bytes(octets)

    tracemalloc.start()
    try:
        (record,) = files.read(path, form)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert b"ab" == record.wire
    assert peak < 10 << 20


@given(st.integers(0, 5_000_000), st.integers(0, 5_000_000))
def test_reading_up_to_a_size(there: int, size: int) -> None:
    assert min(there, size) == len(containers.read_up_to(io.BytesIO(bytes(there)), size))


@pytest.mark.parametrize("form", sorted(FORMS))
def test_damaged_files_need_little_memory(tmp_path: Path, form: str) -> None:
    """In a process that may take 128 MiB and must not end; `python -m fuzz.files` reads more."""
    pytest.importorskip("resource")
    if not Path("/proc/self/statm").exists():
        pytest.skip("there is no such file as /proc/self/status")

    assert 0 == run_bounded(300, 5, form, 128 << 20, tmp_path)


def test_many_damaged_files() -> None:
    """Whether what is whole is read; `python -m fuzz.files` reads more."""
    assert [] == run(4_000, 1, [form for form in FORMS if form != "pcap"], kept=None)


@pytest.mark.soak
def test_many_more_damaged_files() -> None:
    assert [] == run(shortened(200_000), 2, list(FORMS), kept=None)


# Folders.


def test_files_below_a_folder(tmp_path: Path) -> None:
    for name in ("b.bin", "a/c.bin", "_part/x.bin", "a/.y.bin", "_z.bin", "other/d.bin"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).touch()
    (tmp_path / "in" / "e.bin").symlink_to("b.bin")
    (tmp_path / "in" / "linked").symlink_to("other")
    (tmp_path / "in" / ".gone").symlink_to("nowhere")

    found = [path.removeprefix(f"{tmp_path}/") for path in stores.files_of(str(tmp_path / "in"))]
    assert ["in/a/c.bin", "in/b.bin", "in/e.bin", "in/other/d.bin"] == found
    assert [f"{tmp_path}/in/linked/d.bin"] == stores.files_of(str(tmp_path / "in" / "l*"))


def test_unreadable_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its messages would be missing, and nothing would say so."""
    (tmp_path / "in" / "closed").mkdir(parents=True)
    (tmp_path / "in" / "a.bin").touch()
    scan = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError, match=r"Permission denied: '.*/in/closed'"):
        stores.files_of(str(tmp_path / "in"))


def test_broken_link_in_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(prefixed([b"\x00\x53\x77\x40"]))
    (tmp_path / "b.bin").symlink_to("nowhere")

    with pytest.raises(
        FileNotFoundError, match=r"a link to nowhere, which does not exist: '.*b.bin"
    ):
        stores.files_of(str(tmp_path))
    assert ["", "it is a link to nowhere, which does not exist"] == [
        item.fault for item in Inputs([str(tmp_path)])
    ]


@pytest.mark.skipif(os.name != "posix", reason="names are text elsewhere")
def test_file_name_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "in" / os.fsdecode(b"a\xff.bin")
    path.parent.mkdir()
    path.write_bytes(prefixed([Message("x").encode(), b""]))

    assert 1 == jobs.run(path.parent, tmp_path / "out", jobs.Job("validate")).good
    (row,) = jobs.quarantined(tmp_path / "out")
    assert f"{tmp_path}/in/a\\xff.bin" == row["source"]


def test_a_pattern_of_folders_of_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    for name in ("day1", "day2"):
        (tmp_path / name).mkdir()
        table = pa.table({"wire": [Message(name).encode()]})
        pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / name / "a.parquet")

    assert 2 == jobs.run(str(tmp_path / "day*"), tmp_path / "out", jobs.Job("validate")).good
