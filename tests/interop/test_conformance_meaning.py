"""What typed JSON says, and whether two say the same: values, outcomes, termini and messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import DecodeError, decode_value
from amqp10msg.composite import COMPOSITES, decode_composite, encode_composite
from amqp10msg.interop import conformance, corpus
from amqp10msg.interop.conformance import PeerResults
from amqp10msg.interop.conformance.judging import describe_difference, normalize
from amqp10msg.interop.corpus import Case, agreement
from amqp10msg.notation import to_typed
from amqp10msg.testing import composites
from tests.samples import corpus_cases

INTEGERS = ("ubyte", "uint", "ulong", "int", "long")
typed_values = st.recursive(
    st.one_of(
        st.just(["null"]),
        st.builds(
            lambda kind, text: [kind, text], st.sampled_from(["string", "symbol"]), st.text()
        ),
        st.builds(lambda kind, n: [kind, n], st.sampled_from(INTEGERS), st.integers(0, 127)),
        st.builds(lambda flag: ["boolean", flag], st.booleans()),
        st.builds(lambda bits: ["float", bits.hex()], st.binary(min_size=4, max_size=4)),
    ),
    lambda inner: st.builds(lambda items: ["list", items], st.lists(inner, max_size=3)),
    max_leaves=6,
)


def retyped(typed: Any) -> Any:
    """Say the same in other types of the same families."""
    kind, *rest = typed
    if kind in INTEGERS:
        return ["integer", *rest]
    if kind in ("string", "symbol"):
        return ["octets", rest[0].encode().hex()]
    if kind == "list":
        return ["sequence", [retyped(item) for item in rest[0]]]
    return typed


def changed(typed: Any) -> Any:
    """Change one value of those in it, if there is one that can be."""
    kind, *rest = typed
    if kind in INTEGERS:
        return [kind, rest[0] + 1]
    if kind in ("string", "symbol"):
        return [kind, rest[0] + "x"]
    if kind == "list":
        return [kind, [*rest[0], ["null"]]]
    return ["boolean", "no"]


@given(typed_values)
def test_agreement_distinguishes_types_from_values(typed: Any) -> None:
    other = retyped(typed)

    assert "exact" == agreement(typed, json.loads(json.dumps(typed)))
    assert ("exact" if other == typed else "value") == agreement(typed, other)
    assert agreement(typed, changed(typed)) is None
    assert agreement(typed, changed(other)) is None


@pytest.mark.parametrize(
    "found", [["uint"], ["number", "x"], ["octets", 5], {}, 7, "x", [[]], None]
)
def test_invalid_typed_json_never_agrees(found: Any) -> None:
    assert agreement(["uint", 5], found) is None


NULL = ["null"]
LISTS = [
    entry
    for key, entry in COMPOSITES.items()
    if isinstance(key, int) and "section" not in entry.provides and 0x1D <= key < 0x70
]
drawn = st.sampled_from(LISTS).flatmap(lambda entry: composites(entry.cls))


def written_out(typed: Any) -> Any:
    """Say the same with a symbolic descriptor, defaults that need not be, and nulls at the end."""
    _, (_, code), (_, fields) = typed
    entry = COMPOSITES[code]
    found = [*fields, *[NULL] * (len(entry.fields) - len(fields))]
    for place, row in enumerate(entry.fields):
        if found[place] == NULL and row.default not in (None, ()):
            found[place] = [row.type, getattr(row.default, "value", row.default)]
        elif row.multiple:
            array = ["array", "a3", [] if found[place] == NULL else [found[place]]]
            found[place] = found[place] if found[place][0] == "array" else array
    return ["described", ["symbol", entry.symbol], ["list", found]]


@pytest.mark.parametrize(
    "byte, read, how",
    [
        (2, True, "value"),
        (255, True, "value"),
        (2, 2, "exact"),
        (2, False, None),
        (True, 2, "value"),
    ],
)
def test_every_nonzero_byte_is_true_in_0_9_1(byte: int, read: Any, how: str | None) -> None:
    table, other = (["F", [["t", ["A", [["t", value]]]]]] for value in (byte, read))

    assert how == agreement(table, other)


@pytest.mark.parametrize(
    "typed, found, how",
    [
        (["double", "3ff8000000000000"], 1.5, "value"),
        (["float", "3fc00000"], 1.5, "value"),
        (["d", "3ff8000000000000"], 1.5, "value"),
        (["double", "3ff8000000000000"], 1.25, None),
        (["double", "4014000000000000"], 5.0, "value"),
        (["uint", 5], 5.0, "value"),
        (["uint", 5], 5.5, None),
        (["long", 2**53], float(2**53), "value"),
    ],
)
def test_numeric_matches_numbers_with_a_fraction(typed: Any, found: float, how: str | None) -> None:
    assert how == agreement(typed, ["numeric", found])
    assert how == agreement(["list", [typed]], ["list", [["numeric", found]]])


@pytest.mark.parametrize("typed", [["uint", 5], ["d", "4014000000000000"], ["float", "40a00000"]])
def test_doubles_that_may_be_integers(typed: Any) -> None:
    assert "value" == agreement(["list", [typed]], ["list", [["numeric", 5]]])
    assert agreement(typed, ["numeric", 6]) is None
    assert agreement(["string", "5"], ["numeric", 5]) is None
    # Who keeps them apart has to keep them right.
    other = ["integer", 5] if typed[0] != "uint" else ["number", 5.0]
    assert agreement(typed, other) is None


@given(drawn)
def test_all_ways_to_say_a_composite_mean_the_same(composite: Any) -> None:
    typed = to_typed(composite)
    value = to_typed(decode_value(encode_composite(composite)))

    said = normalize("composite", typed)
    assert said == normalize("composite", said)
    assert said == normalize("composite", value)
    assert said == normalize("composite", written_out(typed))
    for loose in (False, True):
        lost = normalize("composite", retyped_within(written_out(typed)), loose=loose)
        assert agreement(normalize("composite", typed, loose=loose), lost)


def retyped_within(typed: Any) -> Any:
    """Lose the types, as some codecs do."""
    if typed[0] == "described":
        return ["described", *(retyped_within(part) for part in typed[1:])]
    if typed[0] == "list":
        return ["sequence", [retyped_within(item) for item in typed[1]]]
    if typed[0] == "array" and len(typed) == 3:
        return ["sequence", [retyped(item) for item in typed[2]]]
    return retyped(typed)


@given(drawn, st.data())
def test_another_value_means_another(composite: Any, data: st.DataObject) -> None:
    typed = to_typed(composite)
    _, descriptor, (_, fields) = typed
    place = data.draw(st.integers(0, len(fields)))
    other = [*fields[:place], ["uuid", "0" * 32], *fields[place + 1 :]]

    changed = normalize("composite", ["described", descriptor, ["list", other]], loose=True)
    assert agreement(normalize("composite", typed, loose=True), changed) is None


@pytest.mark.parametrize("loose", [False, True])
def test_types_of_defaults_matter_where_they_are_known(loose: bool) -> None:
    default, of_another_type = (
        ["described", ["ulong", 0x28], ["list", [NULL, [kind, 0]]]] for kind in ("uint", "ubyte")
    )

    assert ["described", ["ulong", 0x28], ["list", []]] == normalize("composite", default)
    same = normalize("composite", of_another_type, loose=loose) == normalize("composite", default)
    assert same is loose


def test_empty_sections_are_removed_in_normal_form() -> None:
    body = ["data", "78"]
    header = ["header", [["boolean", False], ["ubyte", 4], NULL, ["boolean", False], ["uint", 0]]]

    assert [body] == normalize("message", [header, ["properties", [NULL]], body])
    kept = [["header", [["boolean", True]]], body]
    assert kept == normalize("message", [["header", [["boolean", True], ["ubyte", 4]]], body])
    assert ["list", [NULL]] == normalize("value", ["list", [NULL]])
    for other in (["map", []], ["boolean", True], NULL):
        assert [["header", other], body] == normalize("message", [["header", other], body])


@pytest.mark.parametrize(
    "before, after, said",
    [
        (
            [],
            [["header", [["boolean", True]]]],
            'header.durable is ["boolean", true], but the case omits it',
        ),
        (
            [["header", [["null"], ["null"], ["uint", 0]]]],
            [],
            "header.ttl is left out",
        ),
        (
            [["header", [["null"], ["null"], ["uint", 0]]]],
            [["header", [["null"], ["null"], ["uint", 1]]]],
            'header.ttl is ["uint", 1], not ["uint", 0]',
        ),
        ([["footer", []]], [], "footer is left out"),
        ([["data", "61"]], [["data", "62"]], 'data is "62", not "61"'),
        ([["data", "61"], ["data", ""]], [["data", ""]], 'data is [""], not ["61", ""]'),
        (
            [["data", "61"], ["data", "62"]],
            [["data", "62"], ["data", "61"]],
            "data is in reverse order",
        ),
        (
            [["data", "61"], ["footer", []]],
            [["footer", []], ["data", "61"]],
            "the sections are in another order",
        ),
    ],
)
def test_differences_are_described_per_section(before: Any, after: Any, said: str) -> None:
    assert said == describe_difference("message", before, after)


@pytest.mark.parametrize("kind", ["message", "composite", "value"])
@pytest.mark.parametrize(
    "answer", ["x", ["uint"], [[]], {"a": 1}, [["header"]], [7], [["list", 5]]]
)
def test_invalid_typed_json_answer_is_a_finding(kind: str, answer: Any) -> None:
    typed = ["described", ["ulong", 0x24], ["list", []]]
    one = Case(
        id="odd",
        kind=kind,
        data=b"\x00\x53\x75\xa0\x01x" if kind == "message" else b"",
        typed=[["data", "78"]] if kind == "message" else typed,
        clause="Part 1, 1.4",
        origin="this test",
    )

    found = conformance.judge(one, Answering(answer))

    assert ("fail", False) == (found.outcome, found.facets["kept"])
    assert found.reason.startswith("read")


class Answering(corpus.Program):
    """A program that reads everything as the same, and does nothing else."""

    def __init__(self, answer: Any) -> None:
        self.typed = answer

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if request["do"] != "decode":
            raise corpus.UnsupportedError(request["do"])
        return {"typed": self.typed}


@pytest.mark.parametrize("broken", [True, False])
def test_lost_order_of_sections_is_noted(broken: bool) -> None:
    cases = [
        case
        for case in corpus_cases()
        if case.kind == "message"
        and case.typed is not None
        and (
            (case.error is not None and case.error.rule == "section-out-of-order")
            if broken
            else case.id == "all-sections"
        )
    ]

    assert (5 if broken else 1) == len(cases)
    for case in cases:
        result = conformance.judge(case, Answering([*case.typed[1:], *case.typed[:1]]))
        kept = conformance.judge(case, Answering(case.typed))

        assert ("note" if broken else "fail") == result.outcome, case.id
        assert "read: the sections are in another order" == result.reason
        assert ("pass", True) == (kept.outcome, kept.facets["kept"])


def test_cases_of_composites_say_what_their_bytes_say() -> None:
    """Also those that break a declaration, which a codec without declarations reads."""
    cases = [case for case in corpus_cases() if case.kind == "composite" and case.typed is not None]

    assert len(cases) > 800
    for case in cases:
        value = to_typed(decode_value(case.data))
        if case.error is not None:
            assert value == case.typed, case.id
            with pytest.raises(DecodeError):
                decode_composite(case.data)
        assert normalize("composite", case.typed) == normalize("composite", value), case.id


class Refusing(Answering):
    """A program that refuses everything for one reason."""

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        raise corpus.RefusedError(f"{self.typed}, of {request['do']}")


class Rewriting(Answering):
    """A program that reads messages without showing them, and writes the same of each."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if request["do"] == "decode":
            return {"typed": None}
        if request["do"] == "again":
            return {"data": self.octets.hex()}
        raise corpus.UnsupportedError(request["do"])


def shipped_case(name: str) -> Case:
    return next(case for case in corpus_cases() if case.id == name)


@pytest.mark.parametrize(
    "name, answer",
    [
        # 0-9-1, 4.2.5.5: a table that names a field twice is illegal, and undefined.
        ("basic-table-same-name-twice", ["F", [["k", ["t", False]]]]),
        ("basic-table-name-255-7878", ["F", [["x" * 128, ["V"]]]]),
        # The grammar of 0-9-1 has an unsigned number for l.
        ("basic-table-l-0", ["F", [["k", ["l", 2**63]]]]),
        ("basic-table-upper-d-2", ["F", [["k", ["D", [2, 2**32 - 150]]]]]),
        # Part 1, 1.5: the descriptor is reserved.
        ("described-null-descriptor", ["boolean", True]),
        # Whatever is read of bytes that break a clause.
        ("header-value-type", [["data", "78"]]),
    ],
)
def test_unspecified_behaviour_is_a_note(name: str, answer: Any) -> None:
    found = conformance.judge(shipped_case(name), Answering(answer))

    assert ("note", ()) == (found.outcome, found.faults)
    assert "kept" not in found.facets
    assert [("kept", found.clause)] == [tuple(note[:2]) for note in found.notes][:1]
    assert PeerResults("odd", "odd", [found]).ok


@pytest.mark.parametrize(
    "section",
    ["005371c10100", "005372c10100", "005374c10100"],  # the maps before the body
)
def test_empty_and_absent_maps_are_equivalent(section: str) -> None:
    with_it, without = bytes.fromhex(section + "005375a00178"), bytes.fromhex("005375a00178")

    for sent, written in ((with_it, without), (without, with_it)):
        typed = corpus.Amqp10msg().decode("message", sent)
        one = message_case("a", sent, typed)
        found = conformance.judge(one, Rewriting(written))
        assert ("pass", True) == (found.outcome, found.facets["written"])


def message_case(name: str, data: bytes, typed: Any, clause: str = "Part 3, 3.2.2") -> Case:
    return Case(id=name, kind="message", data=data, typed=typed, clause=clause, origin="this test")


def test_a_field_is_named_and_not_its_section() -> None:
    found = conformance.judge(
        shipped_case("header-ttl-0"), Rewriting(bytes.fromhex("005375a00178"))
    )

    assert [("written", "Part 3, 3.2.1", "wrote: header.ttl is left out")] == list(found.faults)


BODY = bytes.fromhex("005375a00178")


def test_fault_is_reported_once_for_the_broken_clause() -> None:
    """A client that makes every message durable breaks 3.2.1, whatever the message has besides."""
    durable = bytes.fromhex("005370c0020141")
    sections = {"3.2.4": "005373c00401a10161", "3.2.5": "005374c10502a1016b41", "3.2.6": ""}
    cases, results = [], []
    for number, section in sections.items():
        octets = bytes.fromhex(section) + BODY
        typed = corpus.Amqp10msg().decode("message", octets)
        one = message_case(f"m-{number}", octets, typed, f"Part 3, {number}")
        cases.append(one)
        results.append(conformance.judge(one, Rewriting(durable + octets)))

    (finding,) = conformance.findings(PeerResults("odd", "odd", results), cases)

    assert ("written", "Part 3, 3.2.1", 3) == (finding.what, finding.clause, finding.count)


def test_a_message_without_its_body_breaks_3_2() -> None:
    found = conformance.judge(shipped_case("value-null"), Rewriting(b"\x00\x53\x73\x45"))

    assert [("Part 3, 3.2", "wrote: amqp-value is left out")] == [one[1:] for one in found.faults]


@pytest.mark.parametrize("name", ["data-symbolic", "header-symbolic"])
def test_a_section_whose_descriptor_is_not_known_breaks_1_5(name: str) -> None:
    octets = b"" if name == "data-symbolic" else BODY
    found = conformance.judge(shipped_case(name), Rewriting(octets))

    assert {"Part 1, 1.5"} == {clause for _, clause, _ in found.faults}
    assert all(reason.endswith("is left out") for *_, reason in found.faults)


@pytest.mark.parametrize("kind", ["list", "sequence"])
def test_a_value_in_a_composite_is_blamed_and_not_the_composite(kind: str) -> None:
    one = shipped_case("termini-source-filter-of-vendor-7")
    described, descriptor, (_, fields) = one.typed
    (name, (_, _, value)) = fields[7][1][0]
    lost = [described, descriptor, [kind, [*fields[:7], ["map", [[name, value]]]]]]

    found = conformance.judge(one, Answering(lost))

    assert [("kept", "Part 1, 1.2")] == [(facet, clause) for facet, clause, _ in found.faults]


def test_an_array_that_is_not_read_is_blamed_and_not_the_terminus_that_has_it() -> None:
    names = ("array-empty", "source-capabilities-empty-array")
    cases = [shipped_case(name) for name in names]
    results = [conformance.judge(one, Refusing("it has bytes behind it")) for one in cases]

    (finding,) = conformance.findings(PeerResults("odd", "odd", results), cases)

    assert ("read", "Part 1, 1.6.24", 2) == (finding.what, finding.clause, finding.count)


def test_changed_message_is_one_finding_of_a_broker() -> None:
    one = shipped_case("value-null")
    faults = (
        ("kept", "Part 3, 3.2", "properties is inserted"),
        ("unchanged", "Part 3, 3.2", "changed: properties is inserted"),
    )
    facets = {"kept": False, "unchanged": False}
    result = conformance.Result.of(
        one, "fail", facets=facets, reason="", faults=faults, notes=(), said=None, wrote=None
    )

    (finding,) = conformance.findings(PeerResults("odd", "odd", [result]), [one])

    assert ("kept", 1) == (finding.what, finding.count)
