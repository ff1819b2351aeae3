"""Damaged JSON of tested programs, results, journals and Avro headers: one kind of error each."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amqp10msg.interop import conformance, corpus
from amqp10msg.interop.corpus import CorpusError, RefusedError, UnsupportedError
from amqp10msg.interop.corpus.programs import Program
from tests.damaged_json import damaged_json
from tests.samples import case

pytestmark = pytest.mark.once

DEEP = b"[" * 200_000
CASE = case()
RESULTS = [
    conformance.PeerResults(
        "peer",
        "Peer 1",
        [
            conformance.Result.of(
                CASE,
                "fail",
                facets={"read": False},
                reason="why",
                faults=[["read", CASE.clause, "how"]],
                notes=[["cause", CASE.clause, "how"]],
                said=["uint", 1],
                wrote="43",
            )
        ],
    )
]


def saved() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "results.json")
        conformance.save(RESULTS, path)
        return json.loads(path.read_bytes())


@given(damaged_json(saved()))
@example(DEEP)
@example(json.dumps({"format": "amqp10msg conformance 1", "peers": [{"peer": 5}]}).encode())
def test_damaged_results_are_read_or_named(octets: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "results.json")
        path.write_bytes(octets)
        found, fault = [], None
        try:
            found = conformance.load(path)
        except CorpusError as error:
            fault = str(error)
    assert fault is None or "results.json" in fault
    conformance.junit(found)
    conformance.summary(found)
    conformance.difference(found, RESULTS)
    conformance.difference(RESULTS, found)


#: A program that answers each request with the bytes that the request names.
ECHO = """
import json, sys
for line in sys.stdin:
    data = bytes.fromhex(json.loads(line).get("data", b'{"name": "echo"}'.hex()))
    sys.stdout.buffer.write(data + b"\\n")
    sys.stdout.buffer.flush()
"""


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    path = tmp_path_factory.mktemp("echo") / "echo.py"
    path.write_text(ECHO)
    with Program([sys.executable, str(path)], timeout=60.0) as program:
        yield program


ANSWERS = ({"refused": "why", "rule": "truncated", "offset": 3}, {"typed": ["list", [["uint", 1]]]})


@settings(max_examples=60)
@given(st.one_of([damaged_json(answer) for answer in ANSWERS]))
@example(DEEP)
@example(b'[["refused", "why"]]')
@example(b'{"refused": "why", "rule": []}')
@example(b'{"refused": "why", "offset": "3"}')
def test_damaged_answers_of_a_program_are_errors_of_the_program(
    echo: Program, octets: bytes
) -> None:
    octets = octets.replace(b"\n", b"")
    answer: Any = {}
    rule = offset = None
    try:
        answer = echo.ask({"do": "echo", "data": octets.hex()})
    except RefusedError as error:
        rule, offset = error.rule, error.offset
    except (RuntimeError, UnsupportedError):
        pass
    assert isinstance(answer, dict)
    assert isinstance(rule, str | None)
    assert isinstance(offset, int | None)


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(DEEP, id="deep"),
        pytest.param(b"5", id="number"),
        pytest.param(b'{"case": 5}', id="wrong type"),
        pytest.param(b'{"no": "result"}', id="other object"),
        pytest.param(b"\xff", id="not UTF-8"),
    ],
)
def test_a_damaged_journal_is_read_up_to_the_damage(entry: bytes, tmp_path: Path) -> None:
    cases = corpus.load()[:3]
    journal = tmp_path / "journal.jsonl"
    peer = conformance.find_peer("this-library")
    with contextlib.suppress(KeyboardInterrupt):
        conformance.run(peer, cases, jobs=1, journal=journal, on_result=_interrupt)
    lines = journal.read_bytes().splitlines()
    journal.write_bytes(b"\n".join([lines[0], entry, *lines[1:]]))

    found = conformance.run(peer, cases, jobs=1, journal=journal)

    assert [case.id for case in cases] == [result.case for result in found.results]


def _interrupt(_: object) -> None:
    raise KeyboardInterrupt


@given(damaged_json({"type": "record", "name": "a", "fields": [{"name": "b", "type": "bytes"}]}))
@example(DEEP)
def test_a_damaged_schema_of_avro_is_a_value_error(octets: bytes) -> None:
    fastavro = pytest.importorskip("fastavro")
    from amqp10msg.files._avro import _FILE_HEADER_SCHEMA, Avro, is_simple  # noqa: PLC0415  (an extra)

    stream = io.BytesIO()
    header = {"magic": b"Obj\1", "meta": {"avro.schema": octets}, "sync": bytes(16)}
    fastavro.schemaless_writer(stream, _FILE_HEADER_SCHEMA, header)
    stream.seek(0)
    kinds: list[Any] = []
    with contextlib.suppress(ValueError):
        kinds = list(Avro.of(stream).field_types.values())
    assert all(isinstance(is_simple(kind), bool) for kind in kinds)
