"""``python -m fuzz.internals``: everything that is compiled, called with what it does not take.

Each function and class of the compiled modules is called with None and with values of other types,
and so is each method of an object that nothing has initialised, also after its attributes were set.
Whatever they do, the process must go on: what runs in C must not trust what Python hands in. The
last call before the end of a process stands in the file that is named.

A method that is taken from its class is left out: Cython does not look at the ``self`` it is given.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import amqp10msg

_ROOT = Path(amqp10msg.__file__).parent
_FUNCTIONS = {"cython_function_or_method", "builtin_function_or_method"}
#: What is handed in, and None as often as all of it.
ODD: tuple[Any, ...] = (
    *(None, 0, -1, 1, 1 << 70, True, 1.5, b"", b"\x00\x53\x70\x45", "", "x"),
    *((), [], {}, object(), type, ValueError()),
)
_MOST_ARGUMENTS = 6


def modules() -> Iterator[ModuleType]:
    """Yield the modules that are compiled."""
    for file in sorted([*_ROOT.rglob("*.so"), *_ROOT.rglob("*.pyd")]):
        place = file.relative_to(_ROOT.parent)
        yield importlib.import_module(".".join([*place.parts[:-1], place.name.partition(".")[0]]))


def targets(module: ModuleType) -> Iterator[Any]:
    """Yield the functions and classes that a module makes."""
    for _, thing in sorted(vars(module).items()):
        if getattr(thing, "__module__", None) != module.__name__:
            continue
        is_class = isinstance(thing, type) and not issubclass(thing, BaseException)
        if is_class or type(thing).__name__ in _FUNCTIONS:
            yield thing


class Caller:
    """Calls things, and notes what it does before it does it."""

    def __init__(self, seed: int, note: IO[str]) -> None:
        self._draw = random.Random(seed)
        self._note = note
        self.calls = 0

    def call(self, label: str, thing: Callable[..., object], times: int) -> None:
        """Call something with each number of arguments so many times."""
        for count in range(_MOST_ARGUMENTS + 1):
            for _ in range(times if count else 1):
                given = [
                    self._draw.choice(ODD) if self._draw.random() < 0.5 else None
                    for _ in range(count)
                ]
                self._about_to(f"{label}{given!r:.300}")
                self.calls += 1
                with contextlib.suppress(Exception):
                    thing(*given)

    def members(self, made: Any, label: str, times: int) -> None:
        """Call the methods of an object."""
        for name in dir(type(made)):
            if name in {"__class__", "__init_subclass__", "__subclasshook__"}:
                continue
            with contextlib.suppress(Exception):
                held = getattr(made, name)
                if callable(held):
                    self.call(f"{label}.{name}", held, times)

    def attack(self, thing: Any, label: str) -> None:
        """Call a function, or a class and the methods of what it makes."""
        self.call(label, thing, 20)
        if not isinstance(thing, type):
            return
        new: Callable[..., Any] = thing.__new__
        with contextlib.suppress(Exception):
            self.members(new(thing), label, 8)
        for name in dir(thing):
            for value in ODD:
                with contextlib.suppress(Exception):
                    made = new(thing)
                    self._about_to(f"{label}.{name} = {value!r}")
                    setattr(made, name, value)
                    self.members(made, f"{label} with {name} {value!r}", 1)

    def _about_to(self, what: str) -> None:
        self._note.seek(0)
        self._note.truncate()
        self._note.write(what)
        self._note.flush()


def main() -> int:
    """Attack all of it; the process ends where one thing does not bear it."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.internals", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--note", type=Path, default=Path("internals.note"))
    chosen = parser.parse_args()
    with chosen.note.open("w", encoding="utf-8", errors="backslashreplace") as note:
        caller = Caller(chosen.seed, note)
        found = [(module, thing) for module in modules() for thing in targets(module)]
        for module, thing in found:
            caller.attack(thing, f"{module.__name__}.{thing.__name__}")
    print(f"{len(found)} functions and classes, {caller.calls:,} calls")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
