"""What is compiled bears whatever Python hands in: held over the sources, and by calling it."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

import amqp10msg
from amqp10msg import Message
from fuzz.internals import modules, targets

ROOT = Path(amqp10msg.__file__).parents[1]
SOURCES = [
    path
    for path in sorted((ROOT / "amqp10msg").rglob("*.p*"))
    if path.suffix in {".pyx", ".pxi", ".pxd"}
    or (path.suffix == ".py" and path.with_suffix(".pxd").exists())
]
# In setup.py, for all of it. No source may say otherwise.
DIRECTIVES = {
    "allow_none_for_extension_args": False,
    "nonecheck": True,
    "auto_pickle": False,
    "freethreading_compatible": True,
}


def test_safety_directives_are_set_in_setup() -> None:
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")

    for name, value in DIRECTIVES.items():
        assert re.search(rf'^    "{name}": {value},$', setup, re.MULTILINE), name


def test_no_source_overrides_a_safety_directive() -> None:
    assert len(SOURCES) > 40
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        for name, value in DIRECTIVES.items():
            assert not re.search(rf"\b{name}\s*[=(]\s*{not value}", text), f"{path}: {name}"
        # Without the name of a user, the kernels of the translator leave user-ids to others.
        assert {"user"} >= set(
            re.findall(r"\b(?:bytes|str|list|dict|tuple|[A-Z]\w+) (\w+) or None\b", text)
        ), path


def test_freelists_are_only_in_cython_sources() -> None:
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        assert path.suffix in (".pyx", ".pxi") or "freelist" not in text, path


@pytest.mark.skipif(not amqp10msg.COMPILED, reason="the kernel is not compiled")
def test_no_compiled_class_accepts_cython_pickle_state() -> None:
    found = [thing for module in modules() for thing in targets(module)]
    assert len(found) > 100
    for thing in found:
        assert not hasattr(thing, "__setstate_cython__"), thing
        assert not hasattr(thing, "__reduce_cython__"), thing


@pytest.mark.skipif(not amqp10msg.COMPILED, reason="the kernel is not compiled")
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_no_argument_crashes_the_process(tmp_path: Path, seed: int) -> None:
    note = tmp_path / "note"
    done = subprocess.run(
        [sys.executable, "-m", "fuzz.internals", "--seed", str(seed), "--note", str(note)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == done.returncode, note.read_text(encoding="utf-8")
    assert "functions and classes" in done.stdout


@pytest.mark.skipif(not amqp10msg.COMPILED, reason="the kernel is not compiled")
@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this interpreter has the GIL"
)
def test_decode_is_a_method_in_c_where_threads_run_without_the_gil() -> None:
    """The interpreter counts no references to it when it is looked up."""
    octets = Message("x").encode()
    known: dict[str, Any] = {"limits": None, "strict": True, "message_format": 5}

    assert "classmethod_descriptor" == type(vars(Message)["decode"]).__name__
    assert ["data", *known] == [*inspect.signature(Message.decode).parameters]
    # An interpreter may be made without docstrings.
    assert not len.__doc__ or "Decode a message" in (Message.decode.__doc__ or "")
    assert 5 == Message.decode(octets, **known).message_format
    wrong: dict[str, Any]
    for wrong in ({"nope": 1}, dict.fromkeys("abcdefghij")):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            Message.decode(octets, **wrong)
    with pytest.raises(TypeError, match="positional argument"):
        Message.decode(*[octets] * 20)


@pytest.mark.skipif(not amqp10msg.COMPILED, reason="the kernel is not compiled")
@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this interpreter has the GIL"
)
def test_gil_stays_off_after_importing_compiled_modules() -> None:
    code = (
        "import sys; from fuzz.internals import modules; found = list(modules());"
        "print(len(found) > 10, sys._is_gil_enabled())"
    )
    # Not told to stay off: then an extension that does not declare it turns the GIL on.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ("True False\n", "") == (done.stdout, done.stderr)
