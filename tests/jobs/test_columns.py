"""The columns of jobs that decode: entries of maps, the struct of errors, names for many."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from amqp10msg import Message, Properties

pa = pytest.importorskip("pyarrow")

from amqp10msg import columns, jobs, validation  # noqa: E402
from amqp10msg.jobs import Job, Stats  # noqa: E402
from amqp10msg.jobs.inputs import REST_UNREAD_SUFFIX, SKIPPED_SUFFIX  # noqa: E402
from amqp10msg.jobs.job import (  # noqa: E402
    decode_column,
    decode_with_faults,
    translate_with_faults,
    validate_column,
    validate_with_faults,
)
from amqp10msg.jobs.translating import Translator  # noqa: E402
from tests.jobs.job_inputs import read, write  # noqa: E402

WIRES = [
    Message(
        b"hello",
        properties=Properties(message_id=f"m-{n}", creation_time=1_700_000_000_000),
        application_properties={"tenant": f"t{n}", "n": n},
    ).encode()
    for n in range(4)
]
BROKEN = WIRES[0][:-1]
NAMES = (
    *("message_id", "creation_time", "body", "body_text", "body_value", "error", "error_code"),
    *("application_properties", "application_properties.tenant"),
    *("application_properties.tenant string", "application_properties.n bigint as number"),
)


@given(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
def test_job_columns_equal_decode_columns(names: list[str]) -> None:
    expected = columns.decode(WIRES, names)
    shown = [name for name in expected.schema.names if name != "error_code"]
    assume(shown)
    stats = Stats()

    good, bad = Job("decode", columns=tuple(names)).run(
        pa.record_batch({"wire": [*WIRES, BROKEN]}), stats
    )

    assert shown == good.schema.names
    assert [{name: row[name] for name in shown} for row in expected.to_pylist()] == good.to_pylist()
    assert [(BROKEN, "truncated")] == [(r["wire"], r["error_code"]) for r in bad.to_pylist()]
    assert (5, 1) == (stats.rows, stats.errors)


#: Faults, with the error code that a job gives to them.
FAULTS = {
    "no JSON": "unreadable-input",
    f"cut off; {REST_UNREAD_SUFFIX}": "damaged-file",
    f"a bad length; {SKIPPED_SUFFIX}": "damaged-file",
}


ROWS_WITH_FAULTS = st.lists(
    st.tuples(
        st.sampled_from([*WIRES, BROKEN, b"", b"nonsense", None]),
        st.sampled_from([None, "", *FAULTS]),
    )
)


@given(
    ROWS_WITH_FAULTS,
    st.lists(st.sampled_from([*NAMES, "wire", "error_offset"]), min_size=1, unique=True),
)
def test_rows_with_faults_are_errors(
    rows: list[tuple[bytes | None, str | None]], names: list[str]
) -> None:
    wires = pa.array([wire for wire, _ in rows], pa.binary())
    faults = pa.array([fault for _, fault in rows], pa.string())
    plain = decode_column(wires, names)

    decoded = decode_with_faults(wires, faults, names)

    assert plain.schema == decoded.schema
    for (wire, fault), row, expected in zip(
        rows, decoded.to_pylist(), plain.to_pylist(), strict=True
    ):
        if fault:
            error = {"code": FAULTS[fault], "clause": "", "offset": None}
            values = {"wire": wire, "error": error} | {f"error_{n}": v for n, v in error.items()}
            assert {name: values.get(name) for name in plain.schema.names} == row
        else:
            assert expected == row


@given(st.lists(st.sampled_from([*FAULTS]), min_size=1))
def test_decoding_and_jobs_give_the_same_code_to_a_fault(faults: list[str]) -> None:
    wires = pa.array([b"nonsense"] * len(faults), pa.binary())
    batch = pa.record_batch({"wire": wires, "fault": pa.array(faults)})

    _, quarantined = Job("decode").run(batch, Stats())

    decoded = decode_with_faults(wires, batch.column("fault"), ["error_code", "error_clause"])
    assert quarantined.select(["error_code", "error_clause"]).to_pylist() == decoded.to_pylist()


@given(ROWS_WITH_FAULTS)
def test_validated_rows_with_faults_are_invalid(
    rows: list[tuple[bytes | None, str | None]],
) -> None:
    wires = pa.array([wire for wire, _ in rows], pa.binary())
    faults = pa.array([fault for _, fault in rows], pa.string())
    profile = validation.profile_of("oasis")
    plain = validate_column(wires, profile)

    result = validate_with_faults(wires, faults, profile)

    assert [column.type for column in plain] == [column.type for column in result]
    for (_, fault), valid, violations, expected in zip(
        rows,
        *(column.to_pylist() for column in result),
        zip(*(column.to_pylist() for column in plain), strict=True),
        strict=True,
    ):
        if fault:
            (violation,) = violations
            assert (False, FAULTS[fault], "error", fault) == (
                valid,
                *(violation[name] for name in ("rule", "severity", "text")),
            )
        else:
            assert expected == (valid, violations)


@given(ROWS_WITH_FAULTS)
def test_translated_rows_with_faults_are_errors(
    rows: list[tuple[bytes | None, str | None]],
) -> None:
    wires = pa.array([wire for wire, _ in rows], pa.binary())
    faults = pa.array([fault for _, fault in rows], pa.string())
    to_basic, to_amqp10 = (Translator(to, "lossless") for to in ("0-9-1", "1.0"))
    basic = {"content_header": wires, "payload": wires}
    for translator, columns_in in ((to_basic, {"wire": wires}), (to_amqp10, basic)):
        plain = pa.RecordBatch.from_pydict(translator.run(columns_in), schema=translator.schema)

        result = pa.RecordBatch.from_pydict(
            translate_with_faults(translator, columns_in, faults), schema=translator.schema
        )

        for (_, fault), row, expected in zip(
            rows, result.to_pylist(), plain.to_pylist(), strict=True
        ):
            if fault:
                error = {"error_code": FAULTS[fault], "error_clause": "", "error_text": fault}
                assert dict.fromkeys(row) | error == row
            else:
                assert expected == row


@pytest.mark.parametrize("kind", ["decode", "validate", "translate", "profile"])
@pytest.mark.parametrize("column", [[True], [3], [None]], ids=["bool", "int64", "null"])
def test_job_refuses_a_fault_that_is_not_text(kind: Any, column: list[Any]) -> None:
    batch = pa.record_batch({"wire": [WIRES[0]], "fault": column})
    job, stats = Job(kind, to="0-9-1"), Stats()
    if column == [None]:
        job.run(batch, stats)
        assert (1, 0) == (stats.rows, stats.errors)
        return

    with pytest.raises(ValueError, match=f"not {batch.schema.types[1]}: convert or rename"):
        job.run(batch, stats)

    assert Stats() == stats


_CUT = Message(b"x", properties=Properties(message_id="cut", subject="s")).encode()[:-1]


@given(
    st.lists(st.sampled_from([*WIRES, BROKEN, _CUT, b"", b"nonsense"]), min_size=1),
    st.lists(st.sampled_from(["message_id", "subject", "body", "wire"]), min_size=1, unique=True),
)
def test_lenient_job_quarantines_only_messages_without_readable_values(
    wires: list[bytes], names: list[str]
) -> None:
    decoded = columns.decode(wires, [*names, "error_code"], strict=False).to_pylist()
    stats = Stats()
    batch = pa.record_batch({"wire": pa.array(wires, pa.binary())})

    good, bad = Job("decode", columns=tuple(names), lenient=True).run(batch, stats)

    def is_good(row: dict[str, Any], wire: bytes) -> bool:
        has_value = any(row[name] is not None for name in names if name != "wire")
        return bool(wire) and (row["error_code"] is None or has_value)

    expected = [row for row, wire in zip(decoded, wires, strict=True) if is_good(row, wire)]
    read_names = [*names, "error_code"]
    assert expected == [{name: row[name] for name in read_names} for row in good.to_pylist()]
    assert len(wires) == good.num_rows + bad.num_rows == stats.rows
    assert sum(row["error_code"] is not None for row in expected) == stats.repaired
    assert stats == Stats.from_json(stats.as_json())
    assert all(row["error_text"] for row in bad.to_pylist())


@pytest.mark.parametrize(
    "job",
    [
        Job("validate", lenient=True),
        Job("profile", lenient=True),
        Job("translate", lenient=True),
        Job("decode", profile="oasis", lenient=True),
    ],
    ids=lambda job: job.kind,
)
def test_lenient_is_refused_by_jobs_that_validate(job: Job) -> None:
    with pytest.raises(ValueError, match="lenient applies to the job decode without a profile"):
        job.check(["wire", "content_header", "payload"])


# {section: its bytes, of the right size, with an unknown type inside}
_DAMAGED_SECTIONS = {
    "header": b"\x00\x53\x70\xc0\x02\x01\xff",
    "delivery-annotations": b"\x00\x53\x71\xc1\x03\x02\xff\xff",
    "message-annotations": b"\x00\x53\x72\xc1\x03\x02\xff\xff",
    "properties": b"\x00\x53\x73\xc0\x02\x01\xff",
    "application-properties": b"\x00\x53\x74\xc1\x03\x02\xff\xff",
    "amqp-sequence": b"\x00\x53\x76\xc0\x02\x01\xff",
    "amqp-value": b"\x00\x53\x77\xc0\x02\x01\xff",
    "footer": b"\x00\x53\x78\xc1\x03\x02\xff\xff",
}
_BODY = b"\x00\x53\x75\xa0\x01x"


def damaged_message(section: str) -> bytes:
    """Return a message with one damaged section, and a body."""
    octets = _DAMAGED_SECTIONS[section]
    if section.startswith("amqp-"):
        return octets
    return _BODY + octets if section == "footer" else octets + _BODY


@given(
    st.lists(st.sampled_from(NAMES), min_size=1, unique=True),
    st.sampled_from(sorted(_DAMAGED_SECTIONS)),
)
def test_damage_is_undetected_only_in_skipped_sections(names: list[str], section: str) -> None:
    """With a profile, damage in every section is detected."""
    assume({*names} - {"error_code"})
    batch = pa.record_batch({"wire": [damaged_message(section)]})
    job = Job("decode", columns=tuple(names))
    validating = Job("decode", columns=tuple(names), profile="oasis")
    is_skipped = section in job.skipped_sections or (
        "body" in job.skipped_sections and section.startswith("amqp-")
    )

    good, bad = job.run(batch, Stats())

    assert (is_skipped, not is_skipped) == (good.num_rows == 1, bad.num_rows == 1)
    assert [] == validating.skipped_sections
    assert 1 == validating.run(batch, Stats())[1].num_rows
    assert job.skipped_sections == columns.skipped_sections([*names, *_missing_errors(names)])


def _missing_errors(names: list[str]) -> list[str]:
    return [name for name in jobs.ERROR_COLUMN_NAMES if name not in names]


@pytest.mark.parametrize("name", columns.SETS)
def test_named_set_selects_many_columns(name: str) -> None:
    good, _ = Job("decode", columns=(name,)).run(pa.record_batch({"wire": WIRES}), Stats())

    expected = columns.decode(WIRES, name)
    shown = [one for one in expected.schema.names if not one.startswith("error_")]
    assert expected.select(shown).to_pylist() == good.to_pylist()


@pytest.mark.parametrize("names", ["message_id", *columns.SETS])
def test_one_name_and_a_list_of_it_select_the_same_columns(names: str) -> None:
    one, several = Job("decode", columns=names), Job("decode", columns=[names])

    assert (names,) == one.columns
    assert one == several == Job.from_options(one.as_options())
    good, _ = one.run(pa.record_batch({"wire": WIRES}), Stats())
    expected = columns.decode(WIRES, names)
    shown = [name for name in expected.schema.names if not name.startswith("error_")]
    assert expected.select(shown).to_pylist() == good.to_pylist()


def test_columns_that_are_no_names_are_refused() -> None:
    with pytest.raises(TypeError, match=r"columns.*names of columns"):
        Job("decode", columns=cast("Any", 5))


def test_map_entries_reach_output_files(tmp_path: Path) -> None:
    source = write(tmp_path / "in.bin", [*WIRES, BROKEN])
    names = ("application_properties.tenant string", "application_properties.n bigint as number")

    jobs.run(source, tmp_path / "out", Job("decode", columns=names))

    rows = read(tmp_path / "out" / "messages")
    assert [(f"t{n}", n) for n in range(4)] == [(row["tenant"], row["number"]) for row in rows]


@pytest.mark.parametrize(
    "names, text",
    [
        (("application_properties.a string as body", "body"), "duplicate columns: body"),
        (("application_properties.a string as error_code",), "duplicate columns: error_code"),
        (
            ("application_properties.a string as source",),
            "source: a column of the input and of the dec",
        ),
        (("application_properties.a text",), "'text' is not a type"),
        (("lean", "body"), "unknown column 'lean'"),
        (("error_code", "error_clause"), "good rows have no error columns"),
    ],
)
def test_clashing_names_are_an_error(names: tuple[str, ...], text: str) -> None:
    job = Job("decode", columns=names)

    with pytest.raises(ValueError, match=text):
        job.check(["wire", "source"])
