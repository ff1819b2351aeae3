"""The tests that a run selects when the environment asks for a list or a sample of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.selection import sample

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
#: A file in which some functions have several sets of parameters, and its folder's other files.
FILE = "tests/composite/test_composite.py"

FILES = st.sampled_from(["tests/wire/test_a.py", "tests/net/test_b.py", "tests/app/test_c.py"])
IDS = st.builds(
    "{}::test_{}{}".format, FILES, st.integers(0, 9), st.sampled_from(["", "[a]", "[b]", "[c::d]"])
)


def collected(*arguments: str, **environment: str) -> list[str]:
    """Return the ids of the tests that pytest would run."""
    own = ("AMQP10MSG_ONLY", "AMQP10MSG_SAMPLE")  # of the run that this test is part of
    inherited = {name: value for name, value in os.environ.items() if name not in own}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *arguments],
        cwd=ROOT,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in done.stdout.splitlines() if "::" in line]


def function_of(test: str) -> str:
    return test.partition("[")[0]


@given(st.lists(IDS, unique=True, max_size=60), st.integers(1, 12))
def test_sample_contains_every_file(ids: list[str], step: int) -> None:
    selected = sample(ids, step)

    assert selected <= set(ids)
    assert {one.partition("::")[0] for one in ids} == {one.partition("::")[0] for one in selected}


@given(st.lists(IDS, unique=True, max_size=60))
def test_sample_of_step_1_contains_every_function_once(ids: list[str]) -> None:
    functions = [function_of(one) for one in sample(ids, 1)]

    assert len(functions) == len(set(functions))
    assert {function_of(one) for one in ids} == set(functions)


@pytest.fixture(scope="module")
def everything() -> list[str]:
    return collected(FILE)


def test_environment_variable_selects_sample(everything: list[str]) -> None:
    selected = collected(FILE, AMQP10MSG_SAMPLE="2")

    functions = [*dict.fromkeys(map(function_of, everything))]
    assert functions[::2] == [function_of(one) for one in selected]
    assert len(selected) < len(everything) / 2


def test_environment_variable_selects_listed_tests(everything: list[str], tmp_path: Path) -> None:
    listed = everything[1]
    file = tmp_path / "ids"
    file.write_text(f"{listed}\ntests/composite/test_none.py\n")

    assert [listed] == collected("tests/composite", "tests/testing", AMQP10MSG_ONLY=str(file))
