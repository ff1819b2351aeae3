"""The conformance kit: verdicts, processes that die, resumption, reports, the command."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import attrs
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg.app.cli import main
from amqp10msg.app.cli.conformance import _summary, _unique_name
from amqp10msg.atomic_files import write_whole
from amqp10msg.interop import conformance, corpus
from amqp10msg.interop.conformance import Peer, PeerResults, Result
from amqp10msg.interop.corpus import Case, Fault, Program
from tests.waiting import wait_until


def case(name: str, **changes: Any) -> Case:
    attributes: dict[str, Any] = {
        "id": name,
        "kind": "value",
        "data": b"\x52\x05",
        "typed": ["uint", 5],
        "clause": "Part 1, 1.6.5",
        "origin": "this test",
    }
    return Case(**{**attributes, **changes})


# What it does stands in the bytes that it is asked about.
DRIVER = """
import os, signal, sys, time
seen = []
class Driver:
    name = "odd 1.0"
    refusals = (ValueError,)
    def __init__(self, log=""):
        self.log = log
    def decode(self, kind, data):
        if self.log: open(self.log, "ab").write(data[:1] + b"\\n")
        seen.append(data)
        word = data.decode()
        if word == "segv": os.kill(os.getpid(), signal.SIGSEGV)
        if word == "exit": os._exit(3)
        if word == "hang": time.sleep(600)
        if word == "grow":
            held = []
            while True: held.append(bytearray(1 << 24))
        if word == "tired" and len(seen) > 1: os.kill(os.getpid(), signal.SIGABRT)
        if word == "error": raise KeyError("oops")
        if word == "noise": print("noise")
        if word == "refuse": raise ValueError("no")
        if word == "lacks": raise NotImplementedError("not here")
        if word == "family": return ["integer", 5]
        if word == "other": return ["uint", 6]
        if word == "unseen": return None
        return ["uint", 5]
    def again(self, kind, data):
        word = data.decode()
        if word == "unreadable": return b"\\x70\\x00"
        if word == "wide": return b"\\x70\\x00\\x00\\x00\\x05"
        if word == "retype": return b"\\x54\\x05"
        if word == "lose": return b"\\x43"
        return b"\\x52\\x05"
"""

GOOD = {"read": True, "kept": True, "typed": True, "written": True, "identical": True}
EXPECTED: dict[str, tuple[str, dict[str, bool], str]] = {
    "good": ("pass", GOOD, ""),
    "segv": ("crash", {"read": False}, "decoding: the program ended without an answer: SIGSEGV"),
    "exit": ("crash", {"read": False}, "decoding: the program ended without an answer, status 3"),
    "hang": ("hang", {"read": False}, "decoding: no answer from the program in "),
    "error": (
        "error",
        {"read": False, "written": True, "identical": True},
        "decoding: KeyError: 'oops'",
    ),
    "noise": ("pass", GOOD, ""),
    "refuse": ("fail", {"read": False}, "refused: ValueError: no"),
    "lacks": ("pass", {"written": True, "identical": True}, ""),
    "family": ("pass", {**GOOD, "typed": False}, ""),
    "other": (
        "fail",
        {"read": True, "kept": False, "written": True, "identical": True},
        'read ["uint", 6], not ["uint", 5]',
    ),
    "unseen": ("pass", {"read": True, "written": True, "identical": True}, ""),
    "unreadable": ("fail", {**GOOD, "written": False}, "the encoded bytes cannot be read: "),
    "wide": ("pass", {**GOOD, "identical": False}, ""),
    "retype": ("pass", {**GOOD, "identical": False}, ""),
    "lose": ("fail", {**GOOD, "written": False}, 'wrote ["uint", 0], not ["uint", 5]'),
}
for _word in ("unreadable", "lose"):
    del EXPECTED[_word][1]["identical"]


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    path = tmp_path / "odd_driver.py"
    path.write_text(DRIVER)
    return path


def test_every_end_of_a_case_is_a_result_and_the_run_goes_on(driver: Path) -> None:
    cases = [case(word, data=word.encode(), compact=b"\x52\x05") for word in EXPECTED]
    peer = conformance.find_peer(str(driver))

    found = conformance.run(peer, cases, jobs=2, timeout=2)

    assert ("odd-driver", "odd 1.0") == (found.peer, found.name)
    for result in found.results:
        outcome, facets, reason = EXPECTED[result.case]
        assert (outcome, facets) == (result.outcome, result.facets), result
        assert reason in result.reason
        assert bool(reason) == bool(result.reason), result
    assert list(EXPECTED) == [result.case for result in found.results]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is watched in /proc")
def test_a_process_that_grows_is_ended(driver: Path) -> None:
    cases = [case("grow", data=b"grow"), case("good", data=b"good")]

    found = conformance.run(conformance.find_peer(str(driver)), cases, memory=192 << 20, timeout=60)

    assert ["memory", "pass"] == [result.outcome for result in found.results]
    assert "decoding: the program used more than 192 MiB and was killed" == found.results[0].reason


NOISY = """
import os, sys, time
class Driver:
    name = "noisy 1.0"
    refusals = (ValueError,)
    def __init__(self):
        print("started", file=sys.stderr)
    def decode(self, kind, data):
        word = data.decode()
        print(word + " begins", file=sys.stderr)
        for number in range(3000):
            print(f"{word} line {number}", file=sys.stderr)
        print(word + " ends", file=sys.stderr, flush=True)
        if word == "exit": os._exit(3)
        if word == "hang": time.sleep(100)
        if word == "error": raise KeyError("oops")
        if word == "fail": return ["uint", 6]
        return ["uint", 5]
"""


def test_whole_stderr_of_a_failed_case_is_kept(tmp_path: Path) -> None:
    driver = tmp_path / "noisy.py"
    driver.write_text(NOISY)
    words = ("good", "error", "exit", "hang", "fail", "good-again")
    cases = [case(word, data=word.encode(), compact=None) for word in words]

    found = conformance.run(conformance.find_peer(str(driver)), cases, timeout=3)

    outcomes = {result.case: result.outcome for result in found.results}
    assert {"exit": "crash", "hang": "hang", "error": "error"} == {
        name: outcome for name, outcome in outcomes.items() if outcome not in ("pass", "fail")
    }
    for result in found.results:
        if outcomes[result.case] in ("pass", "fail"):
            assert "" == result.stderr
            continue
        lines = result.stderr.splitlines()
        numbered = [f"{result.case} line {number}" for number in range(3000)]
        written = [f"{result.case} begins", *numbered, f"{result.case} ends"]
        start = lines.index(written[0])
        assert written == lines[start : start + len(written)]
        # A repeated death has a new process; an error shows nothing of the cases before it.
        assert (["started"] if outcomes[result.case] in ("crash", "hang") else []) == lines[:start]
    (error,) = [result for result in found.results if result.case == "error"]
    assert 'raise KeyError("oops")' in error.stderr
    assert error.stderr in junit_stderr(conformance.junit([found]), "error")


def junit_stderr(text: str, name: str) -> str:
    cases = ET.fromstring(text).iter("testcase")
    (found,) = [one for one in cases if one.get("name") == name]
    return found.findtext("system-err") or ""


def test_stderr_of_a_bad_answer_is_kept(tmp_path: Path) -> None:
    program = tmp_path / "bad.py"
    program.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    print('asked to', asked['do'], file=sys.stderr, flush=True)\n"
        "    print('{\"name\": \"bad\"}' if asked['do'] == 'name' else 'no JSON', flush=True)\n"
    )
    peer = Peer("bad", command=(sys.executable, str(program)))

    (found,) = conformance.run(peer, [case("one")]).results

    assert "error" == found.outcome
    assert "asked to decode\nasked to encode\n" == found.stderr


def test_endless_stderr_is_cut_and_the_rest_is_counted(tmp_path: Path) -> None:
    program = tmp_path / "endless.py"
    program.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    print('x' * ((1 << 20) + 5), file=sys.stderr, flush=True)\n"
        "    print(json.dumps({'name': 'endless'}), flush=True)\n"
    )
    with Program([sys.executable, str(program)]) as endless:
        first, _, rest = endless.stderr.partition("\n")
        assert ("(6 bytes before this)", 1 << 20) == (first, len(rest))


@pytest.mark.parametrize("banner", ["", "print('Hello', flush=True)\n"])
def test_driver_that_does_not_start_is_shown_with_its_stderr(tmp_path: Path, banner: str) -> None:
    program = tmp_path / "broken.py"
    lines = "".join(f"print('line {number}', file=sys.stderr)\n" for number in range(200))
    program.write_text(f"import sys\n{lines}{banner}raise SystemExit('no such library')\n")

    done = command("run", "--peer", f"{sys.executable} {program}", "-o", str(tmp_path / "out"))

    assert 1 == done.exit_code
    assert "does not start: " in done.stderr
    written = [f"line {number}" for number in range(200)]
    shown = done.stderr.splitlines()
    start = shown.index("line 0")
    assert written == shown[start : start + 200]
    assert banner or "no such library" == shown[start + 200]


def test_command_shows_the_whole_stderr_of_failed_cases(tmp_path: Path) -> None:
    driver = tmp_path / "noisy.py"
    driver.write_text(NOISY)
    cases = tmp_path / "cases.jsonl"
    corpus.dump([case(word, data=word.encode()) for word in ("error", "good")], cases)

    done = command(
        *("run", "--peer", str(driver), "--cases", str(cases), "-o", str(tmp_path / "out"))
    )

    assert 1 == done.exit_code
    shown = done.output.splitlines()
    start = shown.index("  error begins")
    assert [f"  error line {number}" for number in range(3000)] == shown[start + 1 : start + 3001]
    assert "good begins" not in done.output


def test_a_death_that_cases_before_it_caused_is_not_blamed_on_it(driver: Path) -> None:
    cases = [case("good", data=b"good"), case("tired", data=b"tired")]

    found = conformance.run(conformance.find_peer(str(driver)), cases)

    assert ["pass", "pass"] == [result.outcome for result in found.results]
    assert "died after other cases, but not on this one alone" in found.results[1].reason
    assert "SIGABRT" in found.results[1].reason


def test_refusals() -> None:
    class Program:
        def __init__(self, answer: Any) -> None:
            self.answer = answer

        def ask(self, _: Any) -> Any:
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    wrong = case("wrong", typed=None, error=Fault("truncated", 1))
    read: Any = Program({"typed": ["uint", 5]})
    right: Any = Program(corpus.RefusedError("why", "truncated", 1))
    late: Any = Program(corpus.RefusedError("why", "truncated", 2))
    silent: Any = Program(corpus.RefusedError("why"))

    assert {"refused": False} == conformance.judge(wrong, read).facets
    assert {"refused": True, "cause": True} == conformance.judge(wrong, right).facets
    assert {"refused": True, "cause": False} == conformance.judge(wrong, late).facets
    assert {"refused": True} == conformance.judge(wrong, silent).facets
    # A bound that each implementation sets for itself is no fault of those that have none.
    deep = attrs.evolve(wrong, error=Fault("depth-limit", 0))
    assert ("skip", {}) == (
        conformance.judge(deep, read).outcome,
        conformance.judge(deep, read).facets,
    )
    assert {"refused": True} == conformance.judge(deep, silent).facets
    # What breaks a rule and can be read may be refused, too.
    either = attrs.evolve(wrong, typed=["uint", 5])
    assert {"kept": True, "typed": True} == conformance.judge(either, read).facets
    assert {"refused": True} == conformance.judge(either, silent).facets


def test_an_interrupted_run_goes_on_where_it_was(driver: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    peer = Peer("odd", str(driver), (str(asked),))
    cases = [case(f"c{number}", data=f"{number}".encode()) for number in range(6)]
    journal = tmp_path / "journal"

    class StopError(Exception):
        pass

    def stop(result: Result) -> None:
        if result.case == "c2":
            raise StopError

    with pytest.raises(StopError):
        conformance.run(peer, cases, journal=journal, on_result=stop)
    journal.write_text(journal.read_text() + '{"case": "cut o')
    changed = [*cases[:1], attrs.evolve(cases[1], note="another case"), *cases[2:]]
    done: list[Result] = []
    resumed: list[int] = []
    found = conformance.run(
        peer, changed, journal=journal, on_result=done.append, on_resumed=resumed.append
    )

    assert [2] == resumed
    assert ["c0", "c1", "c2", "c3", "c4", "c5"] == [result.case for result in found.results]
    assert sorted(found.results, key=str) == sorted(done, key=str)
    assert all(result.outcome == "pass" for result in found.results)
    times = Counter(asked.read_bytes().split())
    assert {b"0": 1, b"1": 2, b"2": 1, b"3": 1, b"4": 1, b"5": 1} == times


def test_command_reports_and_discards_results_of_an_interrupted_run(
    driver: Path, tmp_path: Path
) -> None:
    cases = [case(f"c{number}", data=f"{number}".encode()) for number in range(2)]
    corpus.dump(cases, tmp_path / "cases.jsonl")
    peer = conformance.find_peer(str(driver))
    arguments = ["--peer", str(driver), "--cases", str(tmp_path / "cases.jsonl"), "-o"]

    def interrupt_and_run(name: str, *more: str) -> str:
        out = tmp_path / name
        conformance.run(peer, cases[:1], journal=out / f".{peer.name}.jsonl")
        result = command("run", *arguments, str(out), *more)
        assert 0 == result.exit_code
        return str(result.stderr)

    assert "1 of 2 results are from the interrupted run; --restart" in interrupt_and_run("a")
    assert "interrupted" not in interrupt_and_run("b", "--restart")


@pytest.mark.parametrize(
    "request_, key",
    [
        ({"do": "decode", "kind": "value", "data": "40"}, "typed"),
        ({"do": "encode", "kind": "value", "typed": ["null"]}, "data"),
        ({"do": "again", "kind": "value", "data": "40"}, "data"),
        ({"do": "validate", "data": "40", "profile": "oasis"}, "violations"),
        ({"do": "answer", "kind": "filter", "data": "40", "given": {}}, "answer"),
    ],
)
def test_answer_without_its_key_is_an_error(
    request_: dict[str, Any], key: str, tmp_path: Path
) -> None:
    path = tmp_path / "misspelt.py"
    path.write_text(
        "import sys\n"
        "for line in sys.stdin:\n"
        """    print('{"name": "misspelt", "typd": ["null"]}', flush=True)\n"""
    )
    expected = rf"the answer to {request_['do']} has none of the keys {key}, refused, .*typd"

    with (
        Program([sys.executable, str(path)]) as program,
        pytest.raises(RuntimeError, match=expected),
    ):
        program.ask(request_)


odd_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=6,
)


@given(
    one=st.sampled_from(corpus.load()),
    answers=st.lists(
        st.dictionaries(st.sampled_from(["typed", "data", "violations", "answer"]), odd_json)
        | st.just(corpus.RefusedError("no")),
        min_size=1,
    ),
)
def test_any_program_answer_gives_a_serializable_result(
    one: Case, answers: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    class Odd:
        def ask(self, _: Any) -> Any:
            answers.append(answers.pop(0))
            if isinstance(answers[-1], Exception):
                raise answers[-1]
            return answers[-1]

    found = [PeerResults("odd", "odd 1.0", [conformance.judge(one, Odd())])]  # type: ignore[arg-type]
    path = tmp_path_factory.mktemp("odd") / "results.json"

    conformance.save(found, path)
    assert found[0].ok == conformance.load(path)[0].ok
    write_whole(path.with_name("junit.xml"), conformance.junit(found))
    write_whole(path.with_name("report.md"), conformance.markdown(found, [one]))
    write_whole(path.with_name("index.html"), conformance.scoreboard(found, [one]))


def test_line_without_a_request_is_an_error(tmp_path: Path) -> None:
    program = tmp_path / "twice.py"
    program.write_text(
        "import json, sys, time\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    said = json.dumps({'name': 'twice', 'typed': ['uint', int(asked.get('data', '5'))]})\n"
        "    print(said if asked['do'] == 'name' else f'{said}\\n{said}', flush=True)\n"
    )
    with Program([sys.executable, str(program)]) as twice:
        assert ["uint", 1] == twice.ask({"do": "decode", "data": "1"})["typed"]
        process = twice._process
        assert process is not None
        wait_until(lambda: not process.lines.empty())  # its other line is there
        with pytest.raises(RuntimeError, match="the program wrote a line without a request"):
            twice.ask({"do": "decode", "data": "2"})
        assert ["uint", 3] == twice.ask({"do": "decode", "data": "3"})["typed"]


def test_a_run_does_not_go_on_with_another_program(driver: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    peer = Peer("odd", str(driver), (str(asked),))
    cases = [case("c0", data=b"0")]
    journal = tmp_path / "journal"
    other = tmp_path / "other.py"
    other.write_bytes(driver.read_bytes())

    def times(peer: Peer, **how: Any) -> int:
        conformance.run(peer, cases, journal=journal, **how)
        return len(asked.read_bytes().split())

    assert [1, 1] == [times(peer), times(peer)]
    assert 2 == times(attrs.evolve(peer, driver=str(other)))
    other.write_bytes(driver.read_bytes() + b"# mended")
    assert 3 == times(attrs.evolve(peer, driver=str(other)))
    assert 4 == times(attrs.evolve(peer, driver=str(other)), timeout=7.0)
    assert 4 == times(attrs.evolve(peer, driver=str(other)), timeout=7.0)


def test_the_number_of_a_peer_makes_no_name_of_another() -> None:
    seen: set[str] = set()

    assert ["x", "x-2", "x-2-2"] == [_unique_name(name, seen) for name in ("x", "x", "x-2")]


def without_decoding(driver: Path) -> str:
    """Return the source of a driver that can only validate."""
    source = driver.read_text().partition("    def decode")[0]
    return source + "    def validate(self, data, profile): return []\n"


def test_peers_with_equal_names_get_numbers(driver: Path, tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    corpus.dump([case("c0", data=b"0")], cases)
    lacking = tmp_path / "other" / driver.name
    lacking.parent.mkdir()
    lacking.write_text(without_decoding(driver))

    arguments = ["--peer", str(driver), "--peer", str(lacking), "--peer", str(driver)]
    command("run", *arguments, "--cases", str(cases), "-o", str(tmp_path / "out"))

    one, two = conformance.load(tmp_path / "out" / "results.json")
    assert f"{one.peer}-2" == two.peer
    assert ["pass", "skip"] == [one.results[0].outcome, two.results[0].outcome]


def test_requested_peer_that_skips_every_case_fails_the_run(driver: Path, tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    corpus.dump([case("c0", data=b"0")], cases)
    lacking = tmp_path / "lacking.py"
    lacking.write_text(without_decoding(driver))

    arguments = ["--peer", str(driver), "--peer", str(lacking)]
    result = command("run", *arguments, "--cases", str(cases), "-o", str(tmp_path / "out"))

    assert 1 == result.exit_code
    assert "lacking: every case was skipped" in result.stderr


@pytest.mark.parametrize(
    "clauses, expected",
    [
        ((), "Part 3, 3.2"),
        (("Part 1, 1.6.2",), "Part 1, 1.6.2"),
        (("Part 1, 1.6.2", "Part 1, 1.2", "Part 1, 1.6.2"), "Part 1, 1.6.2; Part 1, 1.2"),
    ],
)
def test_a_failure_names_the_broken_clauses(clauses: tuple[str, ...], expected: str) -> None:
    faults = [("read", clause, "reason") for clause in clauses]
    result = conformance.Result(
        case="c", digest="", kind="message", clause="Part 3, 3.2", outcome="fail", faults=faults
    )

    assert expected == result.broken_clauses


def test_results_without_a_tested_case_are_not_ok() -> None:
    skipped = conformance.Result(
        case="c0", digest="", kind="message", clause="Part 3, 3.2", outcome="skip"
    )
    assert not conformance.PeerResults("p", "p 1", []).ok
    assert not conformance.PeerResults("p", "p 1", [skipped]).ok


def test_run_with_only_skipped_cases_fails(driver: Path, tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    corpus.dump([case("c0", data=b"0")], cases)
    lacking = tmp_path / "lacking.py"
    lacking.write_text(without_decoding(driver))

    made = command(
        "run", "--peer", str(lacking), "--cases", str(cases), "-o", str(tmp_path / "out")
    )

    assert 1 == made.exit_code
    assert "nothing was tested: every case was skipped" in made.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals there")
def processes_of(program: Path) -> list[str]:
    """Return what runs with this file among its arguments, where there is a /proc."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.fsencode(program) in (process / "cmdline").read_bytes():
                found.append(process.name)
    return found


def test_ctrl_c_ends_the_processes_and_keeps_results(driver: Path, tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    asked = tmp_path / "asked"
    made = [case("good", data=b"good"), case("hang", data=b"hang"), case("later", data=b"later")]
    corpus.dump(made, cases)
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from amqp10msg.interop.conformance import peers\n"
        f"peers.PEERS['odd'] = peers.Peer('odd', {str(driver)!r}, ({str(asked)!r},))\n"
        "from amqp10msg.app.cli import main\n"
        "main(sys.argv[1:])\n"
    )
    arguments = ["conformance", "run", "--peer", "odd", "--cases", str(cases), "--jobs", "1"]
    arguments += ["--timeout", "500", "-o", str(tmp_path / "out")]
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        wait_until(
            lambda: (asked.exists() and b"h" in asked.read_bytes()) or running.poll() is not None
        )
        assert running.poll() is None, running.communicate()
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)

    assert (130, "amqp10msg: interrupted") == (running.returncode, said.strip())
    assert [] == processes_of(driver)
    journal = (tmp_path / "out/.odd.jsonl").read_text().splitlines()
    assert ["good"] == [json.loads(line)["case"] for line in journal[1:]]


def results(**outcomes: str) -> PeerResults:
    return PeerResults(
        "odd",
        "odd \x1b 1.0",
        [
            Result(
                case=name,
                digest=name,
                kind="value",
                clause="Part 1, 1.6.5",
                outcome=outcome,
                facets={"read": outcome == "pass"},
                reason="" if outcome == "pass" else "\x00why <&>",
            )
            for name, outcome in outcomes.items()
        ],
    )


ALL = results(**{f"{one}-case": one for one in conformance.OUTCOMES})


def test_results_survive_their_file(tmp_path: Path) -> None:
    conformance.save([ALL], tmp_path / "results.json")

    assert [ALL] == conformance.load(tmp_path / "results.json")
    (tmp_path / "other.json").write_text('{"format": "x"}')
    with pytest.raises(corpus.CorpusError, match="not of the format"):
        conformance.load(tmp_path / "other.json")
    (tmp_path / "none.json").write_text("[]")
    with pytest.raises(corpus.CorpusError, match="not results of a run"):
        conformance.load(tmp_path / "none.json")


@pytest.mark.parametrize(
    "all_results, expected",
    [
        ([ALL], "8 cases: 2 passed, 5 failed, 1 skipped"),
        ([results(a="pass")], "1 case: 1 passed, 0 failed, 0 skipped"),
        (
            [results(a="pass"), results(a="skip")],
            "2 cases of 2 peers: 1 passed, 0 failed, 1 skipped",
        ),
    ],
)
def test_summary_counts_each_result_once(all_results: list[PeerResults], expected: str) -> None:
    assert expected == _summary(all_results)


def test_run_ends_with_the_numbers_of_its_results(tmp_path: Path) -> None:
    corpus.dump([case("good", data=b"\x52\x05")], tmp_path / "cases.jsonl")
    arguments = ["--peer", "this-library", "--cases", str(tmp_path / "cases.jsonl")]

    done = CliRunner().invoke(main, ["conformance", "run", *arguments, "-o", str(tmp_path / "out")])

    assert "1 case: 1 passed, 0 failed, 0 skipped" == done.stdout.splitlines()[-1], done.output


def test_junit_counts_what_it_holds() -> None:
    root = ET.fromstring(conformance.junit([ALL]))

    (suite,) = root
    assert {"tests": "8", "failures": "1", "errors": "4", "skipped": "1"}.items() <= (
        suite.attrib.items()
    )
    kinds = Counter(entry.tag for one in suite for entry in one)
    assert {"failure": 1, "error": 4, "skipped": 1} == kinds
    assert {"odd.Part 1, 1.6"} == {one.attrib["classname"] for one in suite}


def test_difference_tells_worse_from_better() -> None:
    before = results(a="pass", b="fail", c="pass", d="skip", e="pass", f="fail")
    after = results(a="crash", b="pass", c="pass", d="pass", g="fail", f="hang")

    changes = {one.case: one for one in conformance.difference([before], [after])}

    assert {"a", "b", "d", "e", "f", "g"} == changes.keys()
    assert {"a", "f"} == {name for name, one in changes.items() if one.is_worse}
    assert ("pass", "crash", ("read",)) == (
        changes["a"].before,
        changes["a"].after,
        changes["a"].lost,
    )
    assert [] == conformance.difference([before], [before])


@pytest.mark.parametrize(
    "then, now, is_worse",
    [
        *(("hang", "memory", False), ("memory", "hang", False)),  # as fast as the machine was
        *(("hang", "crash", True), ("crash", "hang", False), ("fail", "memory", True)),
    ],
)
def test_deaths_are_compared_by_what_they_say(then: str, now: str, is_worse: bool) -> None:
    (change,) = conformance.difference([results(a=then)], [results(a=now)])

    assert is_worse == change.is_worse


def test_summary_counts_facets_and_deaths() -> None:
    head, row = conformance.summary([ALL]).splitlines()

    assert ["peer", *conformance.FACETS, "died"] == head.split()
    assert ["1/8", "-", "3"] == [row.split()[3], row.split()[4], row.split()[-1]]


@pytest.mark.parametrize(
    "text, name, command",
    [
        ("rhea", "rhea", ()),
        ("./Some_Driver.py", "some-driver", ()),
        ("java -jar 'a driver.jar'", "java", ("java", "-jar", "a driver.jar")),
    ],
)
def test_a_peer_is_a_name_a_file_or_a_command(
    text: str, name: str, command: tuple[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("Some_Driver.py").touch()

    found = conformance.find_peer(text)

    assert (name, command) == (found.name, found.command)


def test_a_peer_is_installed_into_an_environment_of_its_own(tmp_path: Path) -> None:
    wheel = tmp_path / "oddities-1.5-py3-none-any.whl"
    info = "oddities-1.5.dist-info"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("oddities.py", "VALUE = ['uint', 5]\n")
        made.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: oddities\nVersion: 1.5\n")
        made.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        made.writestr(f"{info}/RECORD", "")
    driver = tmp_path / "driver.py"
    driver.write_text(
        "import importlib.util, oddities\n"
        "class Driver:\n"
        "    name = 'oddities'\n"
        "    refusals = ()\n"
        "    def decode(self, kind, data):\n"
        "        assert importlib.util.find_spec('attrs') is None, 'not alone'\n"
        "        return oddities.VALUE\n"
    )
    peer = Peer("oddities", str(driver), requires=(str(wheel),))

    found = conformance.run(peer, [case("one")], environments=tmp_path / "env")

    assert ["pass"] == [result.outcome for result in found.results], found.results
    wheel.unlink()  # it is installed
    assert conformance.prepare(peer, tmp_path / "env").command
    with pytest.raises(conformance.PeerError, match="cannot be installed: see "):
        conformance.prepare(peer, tmp_path / "other")


def test_peers_that_do_not_start_are_named(tmp_path: Path) -> None:
    with pytest.raises(conformance.PeerError, match="no-such-program does not start"):
        conformance.run(conformance.find_peer("./no-such-program --x"), [case("one")])
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('no such library')\n")
    with pytest.raises(conformance.PeerError, match="no such library"):
        conformance.run(conformance.find_peer(str(broken)), [case("one")])


def test_this_library_passes_in_every_column() -> None:
    found = conformance.run(conformance.PEERS["this-library"], corpus.load(), jobs=2)

    assert found.ok, conformance.summary([found])
    assert all(held == asked > 0 for held, asked in found.facets().values()), found.facets()


def command(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["conformance", *arguments])


def test_the_command_prints_a_driver_that_runs(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(command("template").output)

    out = tmp_path / "out"
    done = command("run", "--peer", str(mine), "--only", "boolean-true", "-o", str(out))

    assert 0 == done.exit_code, done.output
    assert "my implementation 1.0" in (out / "results.json").read_text()


@pytest.mark.parametrize(
    "language, kind",
    [
        *(("python", "value"), ("python", "message"), ("javascript", "value")),
        *(("javascript", "message"), ("program", "message")),
    ],
)
def test_command_writes_each_template_once(language: str, kind: str, tmp_path: Path) -> None:
    file = tmp_path / "driver"
    arguments = ["template", "--language", language, "--kind", kind]
    shown = command(*arguments)
    assert (0, True) == (shown.exit_code, len(shown.output) > 500)
    assert 0 == command(*arguments, "-o", str(file)).exit_code
    assert shown.output == file.read_text(encoding="utf-8")

    file.write_text("mine")
    refused = command(*arguments, "-o", str(file))
    assert (1, "mine") == (refused.exit_code, file.read_text())
    assert f"{file} exists already: add --overwrite" in refused.stderr
    assert 0 == command(*arguments, "-o", str(file), "--overwrite").exit_code
    assert shown.output == file.read_text(encoding="utf-8")


def test_default_kind_of_a_template() -> None:
    for language, kind in (("python", "value"), ("javascript", "value"), ("program", "message")):
        given = command("template", "--language", language, "--kind", kind)
        assert given.output == command("template", "--language", language).output
    refused = command("template", "--language", "program", "--kind", "value")
    assert (2, True) == (refused.exit_code, "use --kind message" in refused.stderr)


@given(st.lists(st.sampled_from(corpus.load()), min_size=1, max_size=5, unique_by=lambda c: c.id))
def test_written_cases_are_the_selected_ones(
    tmp_path_factory: pytest.TempPathFactory, chosen: list[Case]
) -> None:
    folder = tmp_path_factory.mktemp("cases")
    corpus.dump(chosen, folder / "in.jsonl")
    only = chosen[0].clause
    expected = [one for one in chosen if one.clause == only or one.clause.startswith(f"{only}.")]

    done = command(
        *("cases", "--cases", str(folder / "in.jsonl"), "--only", only),
        *("--bytes", "-o", str(folder / "out")),
    )

    assert (0, "") == (done.exit_code, done.stderr)
    assert f": {len(expected)} case" in done.output
    assert expected == corpus.load(folder / "out") == corpus.load(folder / "out" / "cases.jsonl")
    files = {path.name: path.read_bytes() for path in (folder / "out" / "bytes").iterdir()}
    assert {f"{one.id}.bin": one.data for one in expected} == files


@pytest.mark.parametrize(
    "only, rules, names",
    [
        ("body-missing", ("body-missing",), ()),
        ("map-*", ("map-duplicate-key", "map-odd-count"), ("map-",)),
        ("*-key-type", ("footer-key-type", "message-annotations-key-type"), ()),
        ("boolean-true", (), ("boolean-true",)),
    ],
)
def test_cases_are_selected_by_rule_or_id(
    tmp_path: Path, only: str, rules: tuple[str, ...], names: tuple[str, ...]
) -> None:
    done = command("cases", "--only", only, "-o", str(tmp_path / "out"))

    assert 0 == done.exit_code
    chosen = corpus.load(tmp_path / "out")
    by_case = {
        case.id: {
            *(rule for rule, *_ in case.violations or ()),
            *([case.error.rule] if case.error is not None else []),
        }
        for case in corpus.load()
    }
    pattern = re.compile(only.replace("*", ".*"))
    expected = {
        name
        for name, broken in by_case.items()
        if pattern.fullmatch(name) or any(map(pattern.fullmatch, broken))
    }
    assert expected == {case.id for case in chosen}
    for rule in rules:
        assert any(rule in by_case[case.id] for case in chosen)
    for name in names:
        assert any(case.id.startswith(name) for case in chosen)


def test_all_cases_are_written(tmp_path: Path) -> None:
    done = command("cases", "-o", str(tmp_path / "out"))

    assert 0 == done.exit_code
    assert corpus.load() == corpus.load(tmp_path / "out")
    assert {"cases.jsonl", "README.md"} == {path.name for path in (tmp_path / "out").iterdir()}
    readme = (tmp_path / "out" / "README.md").read_text()
    lines = (tmp_path / "out" / "cases.jsonl").read_text(encoding="utf-8").split("\n")
    keys = {key for line in lines if line for key in json.loads(line)}
    kinds = {json.loads(line)["kind"] for line in lines if line}
    assert set() == {name for name in keys | kinds if f"`{name}`" not in readme}


def test_cases_replace_files_only_with_overwrite(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = ("cases", "--only", "data", "--bytes", "-o", str(out))
    other = ("cases", "--only", "value-string", "--bytes", "-o", str(out))
    assert 0 == command(*first).exit_code
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}

    refused = command(*other)
    assert (1, True) == (refused.exit_code, "cases.jsonl exists already" in refused.stderr)
    assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    replaced = command(*other, "--overwrite")
    assert 0 == replaced.exit_code
    assert "bytes has 1 file of other cases, such as data.bin" in replaced.stderr
    assert ["value-string"] == [one.id for one in corpus.load(out)]
    assert {"data.bin", "value-string.bin"} == {path.name for path in (out / "bytes").iterdir()}


def test_the_command_runs_reports_and_compares(driver: Path, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    out = tmp_path / "out"
    cases = tmp_path / "cases.jsonl"
    corpus.dump([case("good", data=b"good"), case("other", data=b"other")], cases)
    common = ["--cases", str(cases), "-o", str(out), "--peer", str(driver)]

    done = command("run", *common)
    assert 1 == done.exit_code, done.output
    assert "odd-driver: fail: other (Part 1, 1.6.5): read" in done.output
    assert {"index.html", "results.json", "junit.xml", "report.md"} == {
        path.name for path in out.iterdir()
    }
    (out / "results.json").rename(tmp_path / "old.json")

    same = command("run", *common, "--diff", str(tmp_path / "old.json"))
    assert (0, True) == (same.exit_code, "0 cases changed, 0 got worse" in same.output)
    other = json.loads((tmp_path / "old.json").read_text())
    other["peers"][0]["peer"] = "another"
    (tmp_path / "other.json").write_text(json.dumps(other))
    unknown = command("run", *common, "--diff", str(tmp_path / "other.json"))
    assert 1 == unknown.exit_code  # as without --diff: nothing was compared
    assert "odd-driver: " in unknown.stderr
    assert "other.json has no results of this peer" in unknown.stderr

    corpus.dump([case("good", data=b"refuse"), case("other", data=b"good")], cases)
    worse = command("run", *common, "--diff", str(tmp_path / "old.json"))
    assert 1 == worse.exit_code
    assert "2 cases changed, 1 got worse" in worse.output
    assert "odd-driver: good: pass → fail, lost read" in worse.output


def test_the_command_refuses_what_there_is_not(tmp_path: Path) -> None:
    nothing = command("run", "--only", "Part 9, 1.1", "-o", str(tmp_path))
    assert (2, True) == (
        nothing.exit_code,
        "no case has the clause, rule or id 'Part 9, 1.1'" in nothing.stderr,
    )
    (tmp_path / "none.jsonl").touch()
    empty = command("run", "--cases", str(tmp_path / "none.jsonl"), "-o", str(tmp_path))
    assert (1, True) == (empty.exit_code, "none.jsonl: contains no cases" in empty.stderr)
    missing = command("run", "--peer", "./no-such-program x", "-o", str(tmp_path))
    assert 1 == missing.exit_code
    assert "no-such-program does not start" in missing.stderr
    unclosed = command("run", "--peer", "'open", "-o", str(tmp_path))
    assert (2, True) == (unclosed.exit_code, "--peer: No closing quotation" in unclosed.stderr)


def test_the_command_lists_the_peers() -> None:
    done = command("peers")

    assert 0 == done.exit_code
    assert all(name in done.output for name in conformance.PEERS)


def test_findings_are_the_smallest_cases_by_clause() -> None:
    cases = [
        case("long", data=b"\x52" * 9),
        case("short", data=b"\x52"),
        case("other", clause="Part 1, 1.6.10"),
        case("dead", data=b"\x52" * 3),
    ]
    facets: dict[str, dict[str, bool]] = {
        "long": {"read": False},
        "short": {"read": False, "identical": False},
        "other": {"read": False},
        "dead": {},
    }
    peer = PeerResults(
        "odd",
        "odd 1.0",
        [
            Result(
                case=one.id,
                digest=one.id,
                kind=one.kind,
                clause=one.clause,
                outcome="crash" if one.id == "dead" else "fail",
                facets=facets[one.id],
                reason="a | b",
            )
            for one in cases
        ],
    )

    found = conformance.findings(peer, cases)

    assert [
        ("crash", "Part 1, 1.6.5", 1, "dead"),
        ("read", "Part 1, 1.6.5", 2, "short"),
        ("read", "Part 1, 1.6.10", 1, "other"),
    ] == [(one.what, one.clause, one.count, one.case.id) for one in found]
    text = conformance.markdown([peer], cases)
    assert r"| read | Part 1, 1.6.5 | 2 | `short` `52`: a \| b |" in text
    assert "No case failed." in conformance.markdown([results(a="pass")], cases)


def test_driver_without_a_class_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty.py"
    empty.write_text("x = 1\n")

    with pytest.raises(conformance.PeerError, match="defines no class Driver"):
        conformance.run(conformance.find_peer(str(empty)), [case("a", data=b"\x40")], jobs=1)
