"""What a batch's columns say of rules: whatever breaks one is suspected, and what is usual is not.

The judgement of each message by itself, `amqp10msg.validate`, is the oracle.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    Array,
    Data,
    Decimal32,
    Described,
    Float,
    Limits,
    Message,
    Properties,
    Symbol,
    Timestamp,
    ULong,
    Violation,
    validate,
)
from amqp10msg.testing import encodings, malformed, messages, mutated
from amqp10msg.validation import PROFILES, ProfileName, has_unscreened_rules, prefilter
from bench.messages import REFERENCE
from tests.hostile import MESSAGES
from tests.samples import corpus_cases, recorded_octets, some
from tests.thorough import judged_thoroughly

pa = pytest.importorskip("pyarrow", reason='needs pyarrow: pip install "amqp10msg[arrow]"')

from amqp10msg import columns  # noqa: E402
from amqp10msg.columns import _decode, _prefilter  # noqa: E402
from amqp10msg.jobs.job import validate_column  # noqa: E402

SPOILABLE = [octets for octets in MESSAGES if octets]
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [
        *("x", True, 5, ULong(7), Symbol("s"), b"", None, Decimal32.from_decimal("1.5")),
        *(0.5, float("nan"), Float(float("inf"))),
        *([], {"k": [1]}, Array("int", [1]), Array(0x54, [1]), Described(ULong(5), "d")),
        Described(ULong(0x1D), [Symbol("amqp:internal-error")]),
    ]
)
KEYS = st.one_of(
    st.sampled_from(["x-opt-a", "x-", "rejected", "iothub-a", "iothub", "X-a", ""]).map(Symbol),
    st.builds(ULong, st.integers(0, 200)),
)
ANNOTATIONS = st.one_of(st.none(), st.dictionaries(KEYS, VALUES, max_size=3))
SIMPLE = VALUES.filter(
    lambda value: not isinstance(getattr(value, "value", value), (list, dict, Array))
)
SOUND = Message(
    b"{}",
    properties=Properties(content_type="application/json", content_encoding="gzip", user_id=b"u"),
    message_annotations={"x-opt-a": 1},
    application_properties={"tenant": "acme", "n": 0.5, "none": None},
    footer={"x-opt-hash": b"h"},
).encode()


@st.composite
def breaking(draw: st.DrawFn) -> bytes:
    """Messages that decode, and break rules one way or another, or none."""
    types = [None, "text/plain", "text/plain; charset=utf-8", "json", "", "a/b;c", "text/plain "]
    codings = [None, "gzip", "GZIP", "identity", "compress", "gzip, br", "x", "", "deflate", " br"]
    bodies = [None, b"", [Data(b"a"), Data(b"b")], AmqpValue("v"), [AmqpSequence([1])]]
    properties = st.builds(
        Properties,
        user_id=st.sampled_from([None, b"", b"u"]),
        content_type=st.sampled_from(types),
        content_encoding=st.sampled_from(codings),
    )
    message = Message(
        draw(st.sampled_from(bodies)),
        delivery_annotations=draw(ANNOTATIONS),
        message_annotations=draw(ANNOTATIONS),
        properties=draw(st.one_of(st.none(), properties)),
        application_properties=draw(
            st.one_of(st.none(), st.dictionaries(st.text(max_size=2), SIMPLE, max_size=3))
        ),
        footer=draw(ANNOTATIONS),
    )
    return message.encode()


def assert_judged(
    octets: Sequence[bytes | None], profile: ProfileName, kinds: Sequence[str] = ("binary",)
) -> None:
    """Hold what columns say, for each type of Arrow's, against the judgement of each message."""
    expected = [None if one is None else judged_thoroughly(one, profile) for one in octets]
    assert expected == [None if one is None else validate(one, profile) for one in octets]
    for kind in kinds:
        assert_columns_judge(pa.array(octets, getattr(pa, kind)()), profile, expected)


def assert_columns_judge(
    array: Any, profile: ProfileName, expected: Sequence[list[Violation] | None]
) -> None:
    screen = columns.decode(array, _prefilter.PREFILTER_COLUMNS)

    suspected = _prefilter.suspects(screen, PROFILES[profile])

    assert {row for row, found in enumerate(expected) if found} <= set(suspected)
    assert suspected == sorted(set(suspected))
    judged = validate_column(array, PROFILES[profile])
    is_sound, violations = (column.to_pylist() for column in judged)
    assert [
        None if found is None else all(one.severity != "error" for one in found)
        for found in expected
    ] == is_sound
    shown = [None if found is None else [attrs.asdict(one) for one in found] for found in expected]
    for listed in shown:
        for cells in listed or ():
            cells["text"] = cells["text"].encode("utf-8", "backslashreplace").decode()
            cells["path"] = cells["path"].encode("utf-8", "backslashreplace").decode()
    assert shown == violations
    errors = [next((v for v in found or () if v.severity == "error"), None) for found in expected]
    decoded = columns.decode(array, validate=profile)
    assert [error is not None for error in errors] == decoded["error_code"].is_valid().to_pylist()
    for row, error in enumerate(errors):
        # What cannot be decoded has the reason of decoding.
        if error is not None and screen["error_code"][row].as_py() is None:
            assert (error.rule, error.clause, error.offset) == tuple(
                decoded[name][row].as_py()
                for name in ("error_code", "error_clause", "error_offset")
            )


@given(
    st.lists(
        st.one_of(
            breaking(),
            messages().map(Message.encode),
            messages().flatmap(encodings),
            malformed(),
            st.sampled_from(SPOILABLE).flatmap(mutated),
            st.none(),
        ),
        max_size=8,
    ),
    st.sampled_from(get_args(ProfileName)),
)
def test_every_violating_message_is_validated(
    octets: list[bytes | None], profile: ProfileName
) -> None:
    assert_judged(octets, profile)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_corpus_the_recordings_and_other_cases(profile: ProfileName) -> None:
    octets: list[bytes | None] = [case.data for case in corpus_cases() if not case.limits]
    octets += recorded_octets()
    folder = os.environ.get("AMQP10MSG_VECTORS")
    if folder:
        with gzip.open(Path(folder) / "cases.jsonl.gz", "rt", encoding="utf-8") as lines:
            octets += [bytes.fromhex(json.loads(line)["hex"]) for line in lines]

    octets += [*MESSAGES, REFERENCE, b""]
    once = [*dict.fromkeys(octets)]
    assert_judged([*some(once), None], profile, ["binary", "large_binary"])


@pytest.mark.parametrize("profile", PROFILES)
def test_usual_messages_are_not_suspected(profile: ProfileName) -> None:
    screen = columns.decode([SOUND, None, REFERENCE] * 50, _prefilter.PREFILTER_COLUMNS)

    # A null is no message and has no body.
    expected = [] if "body-missing" not in PROFILES[profile] else [*range(1, 150, 3)]
    assert expected == _prefilter.suspects(screen, PROFILES[profile])


def test_reserved_keys_of_a_profile_are_usual() -> None:
    known = Message(b"x", message_annotations={"iothub-enqueuedtime": 1, "x-opt-a": 2}).encode()
    screen = columns.decode([known] * 10, _prefilter.PREFILTER_COLUMNS)

    assert [] == _prefilter.suspects(screen, PROFILES["azure"])
    assert [*range(10)] == _prefilter.suspects(screen, PROFILES["oasis"])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("keys", [["iothub-a", "rejected"], ["rejected", "iothub-a"]])
def test_reserved_key_does_not_hide_other_rules(profile: ProfileName, keys: list[str]) -> None:
    annotations = {Symbol(key): "x" for key in keys}
    octets = Message(b"x", delivery_annotations=annotations).encode()

    assert_judged([octets], profile)


@pytest.mark.parametrize("key", ["x-opt-partition-key", "x-opt-scheduled-enqueue-time", "x-opt-a"])
@pytest.mark.parametrize("value", [None, 5, "text", Symbol("s"), Timestamp(0), [1], b"x", {"a": 1}])
def test_annotation_types_are_validated_like_single_messages(key: str, value: object) -> None:
    octets = Message(b"x", message_annotations={Symbol(key): value, ULong(1): 1}).encode()

    assert_judged([octets], "azure")


def test_every_rule_is_enforced_by_decoding_or_has_a_suspicion() -> None:
    """Otherwise every message of every batch would be validated one by one."""
    assert () == prefilter.ALWAYS_CHECKED
    assert not any(map(has_unscreened_rules, PROFILES.values()))


def test_odd_rows_are_not_decoded_to_find_suspects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within wide limits, 13 bytes that break nothing would be two megabytes of JSON."""
    wide = Limits(zero_width_per_byte=2**20)
    bomb = bytes.fromhex("005377f0000000050001000045")
    array = pa.array([bomb] * 500)
    assert not validate(bomb, "oasis", limits=wide)
    if _decode.scan_kernel is not None:
        monkeypatch.setattr(_decode, "row", None)

    assert [*range(500)] == list(_decode.suspects(array, wide, PROFILES["oasis"]))


def test_many_reserved_keys_need_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many distinct keys as messages, and no look at the whole column for each."""
    looks: list[Any] = []
    look = _prefilter._true_indexes

    def counted(mask: Any) -> list[int]:
        looks.append(mask)
        return look(mask)

    monkeypatch.setattr(_prefilter, "_true_indexes", counted)
    octets = [
        Message(b"x", message_annotations={Symbol(f"k{number}"): 1}).encode()
        for number in range(1_000)
    ]
    screen = columns.decode(octets, _prefilter.PREFILTER_COLUMNS)

    assert [*range(1_000)] == _prefilter.suspects(screen, PROFILES["oasis"])
    assert 1 <= len(looks) < 10
