"""Some of the columns: the same cells, and the outline of a message judged all the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import DecodeError, Header, Message, Picker, Properties, ULong
from amqp10msg.testing import encodings, malformed, messages
from amqp10msg.validation import rule_of
from tests.columns.column_rows import ERRORS, only, said
from tests.validation.damaged import OCTETS

columns = pytest.importorskip("amqp10msg.columns")
fuzzing = pytest.importorskip("fuzz.columns")


NAMES = st.sampled_from([*columns.SCHEMA.names, "wire"])


@given(st.lists(messages().flatmap(encodings), max_size=2), st.lists(NAMES, unique=True))
def test_projection_has_the_same_cells(octets: list[bytes], names: list[str]) -> None:
    whole = columns.decode(octets, [*columns.SCHEMA.names, "wire"])
    some = columns.decode(octets, names)

    assert names == some.schema.names
    assert len(octets) == some.num_rows
    assert fuzzing.same(whole.select(names), some)


def test_entries_are_picked_from_maps() -> None:
    octets = Message(
        b"", application_properties={"a.b": 1}, message_annotations={ULong(5): "u"}
    ).encode()
    row = only(octets, ["application_properties.a.b", "message_annotations.5", "footer.x"])

    assert [("long", 1), ("ulong", "u")] == [
        (row["application_properties.a.b"]["type"], row["application_properties.a.b"]["l"]),
        (row["message_annotations.5"]["key_type"], row["message_annotations.5"]["s"]),
    ]
    assert None is row["footer.x"]


def test_columns_of_a_picker() -> None:
    pick = Picker(
        *("properties.message_id", ("header.ttl", 5), "application_properties['a.b']"),
        *("body", "message_annotations.x-opt-trace", "footer"),
    )
    messages_ = [
        Message(
            body,
            header=Header(ttl=ttl),
            properties=Properties(message_id=f"m-{ttl}"),
            application_properties={"a.b": ttl},
            message_annotations={"x-opt-trace": "t"},
        ).encode()
        for body, ttl in ((b"x", 1), (b"", 2**31), (b"y", 0))
    ]

    made = columns.decode(messages_, pick)

    names = ["message_id", "ttl", "application_properties.a.b", "body", "body_json"]
    assert [*names, "message_annotations.x-opt-trace", "footer"] == made.schema.names
    assert columns.schema_of(pick) == made.schema
    cells = [
        made.column("message_id"),
        made.column("ttl"),
        made.column("application_properties.a.b").field("l"),
        made.column("body"),
        made.column("message_annotations.x-opt-trace").field("s"),
        made.column("footer"),
    ]
    assert [*map(pick, messages_)] == [*zip(*(cell.to_pylist() for cell in cells), strict=True)]
    # A default is not applied.
    assert [None] == columns.decode([b""], pick).column("ttl").to_pylist()


def test_a_picker_of_a_whole_section() -> None:
    made = columns.schema_of(Picker("header", "message_annotations")).names

    assert [*columns.SCHEMA.names[1:6], "message_annotations"] == made


@pytest.mark.parametrize(
    "path",
    [
        *("message_annotations[5]", "message_annotations['5']", "footer['#5']"),
    ],
)
def test_a_key_without_a_column(path: str) -> None:
    with pytest.raises(ValueError, match="cannot be a column"):
        columns.decode([b""], Picker(path))


def test_unneeded_sections_are_skipped() -> None:
    # A property that is no UTF-8: nobody looks.
    octets = (
        Message(b"x", application_properties={"key": "abc"}).encode().replace(b"abc", b"\xff**")
    )

    assert "invalid-utf8" == only(octets)["error_code"]
    assert {"body": b"x"} == said(only(octets, ["body", *ERRORS]))
    assert (
        "invalid-utf8"
        == only(octets, ["footer.x", "application_properties.k", *ERRORS])["error_code"]
    )


@pytest.mark.parametrize(
    "octets, rule",
    [
        (Message(b"").encode() + Message(b"", header=Header()).encode(), "section-out-of-order"),
        (Message(b"", header=Header()).encode()[:4] * 2, "duplicate-section"),
        (Message(b"").encode() + Message("").encode(), "mixed-body-sections"),
        (Message("").encode() * 2, "duplicate-section"),
        (Message(footer={}).encode() * 2, "duplicate-section"),
        (Message(footer={}).encode() + Message(b"").encode(), "section-out-of-order"),
        (Message(b"").encode() + b"\0\x53\x90\x40", "unknown-section"),
        (Message(b"").encode() + b"\x40", "not-a-section"),
        (Message(b"xy").encode()[:-1], "truncated"),
        (Message(b"").encode() + b"\0\xa3\x02\xff\xff\x40", "symbol-not-ascii"),
        (b"\0\x80\0\0\0\0\0\0\0\x75\xa0\0\0\xa3\x10amqp:data:binary\xa0\0\x57", "not-a-section"),
    ],
)
def test_section_order_is_checked_in_every_projection(octets: bytes, rule: str) -> None:
    whole = only(octets)
    if rule == "not-a-section" and whole["error_code"] == "unknown-constructor":
        rule = "unknown-constructor"

    assert rule == whole["error_code"]
    for name in (["to"], ["body_kind"], ["body"], ["body_json"], ["footer.x"], []):
        assert {k: whole[k] for k in ERRORS} == said(only(octets, [*name, *ERRORS]))


def test_fields_are_named_as_in_a_picker() -> None:
    octets = Message(header=Header(ttl=5), properties=Properties(message_id="m", to="q")).encode()
    paths = ["properties.message-id", "properties.to", "header.ttl"]

    batch = columns.decode([octets], paths)

    assert [{"message_id": "m", "to": "q", "ttl": 5}] == batch.to_pylist()
    assert batch == columns.decode([octets], Picker(*paths))
    assert batch.schema == columns.schema_of(paths)


DAMAGED = st.one_of(OCTETS, malformed(), st.binary(max_size=40))
ABOUT_ERRORS = ["error", "error_offset", "wire", "message_format", "error_clause", "error_code"]


def first_error(octets: bytes) -> tuple[str, str, int] | None:
    """Return the error columns of a message, as decoding with `Message.decode` gives them."""
    try:
        Message.decode(octets)
    except DecodeError as error:
        return (*rule_of(error), error.offset)
    return None


@given(
    st.lists(DAMAGED, min_size=1, max_size=3),
    st.lists(st.sampled_from(ABOUT_ERRORS[1:-1]), unique=True),
)
def test_error_columns_alone_find_the_first_error(octets: list[bytes], names: list[str]) -> None:
    expected = [first_error(message) for message in octets]

    rows = columns.decode(octets, [*names, "error_code"]).to_pylist()
    structs = columns.decode(octets, ["error"]).column(0).to_pylist()

    assert [error and error[0] for error in expected] == [row["error_code"] for row in rows]
    assert expected == [struct and tuple(struct.values()) for struct in structs]
    if "error_clause" in names:
        assert [error and error[1] for error in expected] == [row["error_clause"] for row in rows]


@given(DAMAGED, st.lists(NAMES, unique=True))
def test_errors_of_a_projection_are_first_errors(octets: bytes, names: list[str]) -> None:
    (row,) = columns.decode([octets], [*names, "error"] if names else ["error"]).to_pylist()

    if row["error"] is not None:
        assert first_error(octets) == tuple(row["error"].values())
