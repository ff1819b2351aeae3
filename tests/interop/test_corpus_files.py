"""The container of the corpus: cases, JSON lines, CBOR sequences."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10msg.interop import corpus
from amqp10msg.interop.corpus import Case, CorpusError, Fault
from tests.samples import case

pytestmark = pytest.mark.once

words = st.text("abz09", min_size=1, max_size=8)
faults = st.builds(Fault, rule=words, offset=st.just(0))
typed_values = st.recursive(
    st.one_of(
        st.just(["null"]),
        st.builds(lambda text: ["string", text], st.text()),
        st.builds(lambda number: ["ulong", number], st.integers(0, 2**64 - 1)),
        st.builds(lambda flag: ["boolean", flag], st.booleans()),
    ),
    lambda inner: st.builds(lambda items: ["list", items], st.lists(inner, max_size=3)),
    max_leaves=5,
)


@st.composite
def any_case(draw: st.DrawFn, identity: st.SearchStrategy[str] = words) -> Case:
    kind = draw(st.sampled_from(["value", "message", "composite"]))
    typed = draw(st.none() | typed_values)
    violations = draw(
        st.none()
        | st.lists(
            st.tuples(words, st.sampled_from(["error", "warning"]), st.just(0)), unique=True
        ).map(lambda found: tuple(sorted(found)))
    )
    return Case(
        id=draw(identity),
        kind=kind,
        data=draw(st.binary()),
        typed=typed,
        compact=None if typed is None else draw(st.none() | st.binary()),
        error=draw(faults if typed is None else st.none() | faults),
        violations=violations if kind == "message" else None,
        profile=draw(st.sampled_from(["oasis", "rabbitmq-4"])),
        limits=draw(st.none() | st.builds(lambda count: {"items": count}, st.integers(0, 9))),
        clause=draw(st.sampled_from(["Part 1, 1.2", "Part 3, 3.2.11", "Part 2, 2.8.14"])),
        origin=draw(st.text(min_size=1)),
        licence=draw(st.sampled_from(["Apache-2.0", "MIT"])),
        note=draw(st.text()),
    )


@given(any_case())
def test_case_survives_its_objects(one: Case) -> None:
    assert one == Case.from_object(one.to_object())
    assert one == Case.from_object(one.to_object(binary=True))
    assert one == Case.from_object(json.loads(json.dumps(one.to_object())))


@pytest.mark.parametrize("answer", ["", "released", False, {}])
def test_an_answer_survives(answer: Any) -> None:
    one = case(kind="terminus", typed=None, compact=None, answer=answer)
    assert one == Case.from_object(one.to_object())


cases = st.lists(any_case(), unique_by=lambda one: one.id, max_size=3)


@settings(max_examples=30)
@given(cases=cases)
@pytest.mark.parametrize("suffix", [".jsonl", ".cborseq", ".cbor"])
def test_files_give_back_the_cases(cases: list[Case], suffix: str) -> None:
    if suffix != ".jsonl":
        pytest.importorskip("cbor2")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"cases{suffix}"
        corpus.dump(cases, path)
        assert cases == corpus.load(path)


def test_json_lines_split_at_line_feeds_only(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    one = case(note="a\u2028b\x85c\r\n")
    corpus.dump([one], path)
    assert 1 == path.read_bytes().count(b"\n")
    assert [one] == corpus.load(path)


def test_cbor_sequence_holds_octets_and_no_more_than_the_items(tmp_path: Path) -> None:
    cbor2 = pytest.importorskip("cbor2")
    path = tmp_path / "cases.cborseq"
    corpus.dump([case(), case(id="b-case", compact=b"\x43")], path)
    octets = path.read_bytes()
    first, second = case().to_object(binary=True), case(id="b-case", compact=b"\x43")
    assert cbor2.dumps(first) + cbor2.dumps(second.to_object(binary=True)) == octets
    assert b"\x43" == cbor2.loads(octets[len(cbor2.dumps(first)) :])["compact"]


def test_folder_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    corpus.dump([case(id="second")], tmp_path / "b.jsonl")
    corpus.dump([case(id="first")], tmp_path / "a.jsonl")
    (tmp_path / "README.md").write_text("no cases")
    assert ["first", "second"] == [one.id for one in corpus.load(tmp_path)]


@pytest.mark.parametrize(
    "content, message",
    [
        (b"{}\n", r"cases\.jsonl, line 1: id is missing"),
        (b"\n\n[1]\n", r"line 3: a case must be an object, not list"),
        (b'{"id": 1', r"line 1: not JSON"),
        (b"\xff\n", r"line 1: not JSON"),
    ],
)
def test_invalid_case_lines(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_bytes(content)
    with pytest.raises(CorpusError, match=message):
        corpus.load(path)


def test_duplicate_case_id(tmp_path: Path) -> None:
    corpus.dump([case()], tmp_path / "a.jsonl")
    corpus.dump([case()], tmp_path / "b.jsonl")
    with pytest.raises(CorpusError, match=r"b\.jsonl, line 1: a-case is repeated"):
        corpus.load(tmp_path)


def test_folder_without_cases(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"contains no \.jsonl"):
        corpus.load(tmp_path)


def test_truncated_cbor_sequence(tmp_path: Path) -> None:
    pytest.importorskip("cbor2")
    path = tmp_path / "cases.cborseq"
    corpus.dump([case(), case(id="b-case")], path)
    octets = path.read_bytes()
    first = len(octets) // 2
    for cut in range(1, len(octets)):
        path.write_bytes(octets[:cut])
        if cut == first:
            assert [case()] == corpus.load(path)
        else:
            with pytest.raises(CorpusError, match=r"cases\.cborseq, item \d: "):
                corpus.load(path)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"id": "A case"}, "is not an id"),
        ({"kind": "frame"}, "kind must be one of value, message, composite"),
        ({"clause": "section 3"}, "is not a clause"),
        ({"clause": "Part 3, 3"}, "is not a clause"),
        ({"origin": ""}, "origin must name"),
        ({"licence": ""}, "licence must not be empty"),
        ({"typed": None}, "typed, error or both are required"),
        ({"typed": None, "error": Fault("x", 0), "compact": b"C"}, "compact requires typed"),
        ({"violations": ()}, "only a message"),
        ({"kind": "message", "violations": (("a", "fatal", 0),)}, "one of error, warning"),
        ({"kind": "message", "violations": (("a", "error", 9_999),)}, "outside the data"),
        (
            {"kind": "message", "violations": (("b", "error", 0), ("a", "error", 0))},
            "must be sorted",
        ),
        ({"error": Fault("x", 2)}, "outside the data"),
        ({"limits": {}}, "limits must be arguments of `Limits` \\(depth, items, zero_width, size"),
        (
            {"limits": {"width": 3}},
            "limits must be arguments of `Limits` \\(depth, items, zero_width, size",
        ),
        (
            {"limits": {"depth": 0}},
            "limits must be arguments of `Limits` \\(depth, items, zero_width, size",
        ),
        (
            {"limits": {"items": "3"}},
            "limits must be arguments of `Limits` \\(depth, items, zero_width, size",
        ),
    ],
)
def test_case_that_contradicts_itself(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        case(**changes)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"data": "4g"}, "a-case: non-hexadecimal"),
        ({"data": 5}, "a-case: data must be str or bytes, not int"),
        ({"typed": {"uint": 0}}, "typed must be list, not dict"),
        ({"colour": "red"}, "unknown attribute colour"),
        ({"error": {"rule": "x"}}, "offset"),
        ({"error": {"rule": "x", "offset": "1"}}, "a-case: rules must be str, and offsets int"),
        ({"error": {"rule": "x", "offset": None}}, "a-case: rules must be str, and offsets int"),
        ({"violations": [[1, "error", "0"]]}, "a-case: rules must be str, and offsets int"),
        ({"violations": [["a"]]}, "a-case: not enough values"),
        ({"clause": None}, "clause must be str, not NoneType"),
        ({"limits": 3}, "limits must be Mapping, not int"),
    ],
)
def test_invalid_case_object(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        Case.from_object({**case().to_object(), **changes})


@pytest.mark.parametrize("suffix", [".jsonl", ".cborseq"])
def test_a_later_version_of_the_corpus_is_read_without_its_new_parts(
    tmp_path: Path, suffix: str
) -> None:
    known = corpus.demo_messages()[0]
    items = [
        {**known.to_object(binary=suffix != ".jsonl"), "severity": "must", "origins": []},
        {"id": "later", "kind": "stream", "frames": ["00"]},
    ]
    path = tmp_path / f"later{suffix}"
    if suffix == ".jsonl":
        path.write_text("".join(json.dumps(item) + "\n" for item in items))
    else:
        cbor2 = pytest.importorskip("cbor2")
        path.write_bytes(b"".join(map(cbor2.dumps, items)))

    skipped = r"support: attribute origins \(1\), attribute severity \(1\), kind stream \(1\)"
    with pytest.warns(UserWarning, match=skipped):
        assert [known] == corpus.load(path)
    with pytest.raises(corpus.CorpusError, match="unknown attribute origins, severity"):
        corpus.Case.from_object(items[0])
