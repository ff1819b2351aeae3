"""Record the behaviour of a source tree over fixed inputs, and compare two such records.

    python tools/behaviour.py record before.jsonl
    python tools/behaviour.py record after.jsonl          # in the other tree
    python tools/behaviour.py compare before.jsonl after.jsonl
    python tools/behaviour.py show to-basic messages 4711 # in each tree: print the results

A record is a file of JSON lines, one for each part and each hundred inputs: a hash of their
results, and a short hash per input. `compare` counts the inputs with different results in each
part, prints the first of them, and exits with 1 if there are any. It reproduces the inputs: drawn
ones from the seed and their index, fixed ones from their files. Only lines that both records
contain are compared. A fixed input is recognised at any position. The profiles of a batch of
translations depend on its first input, though: to compare trees with different cases or
recordings, record the parts without batches (`--part`), or copy the files of one tree to the other.

The parts are those of `behaviour_parts`, which contains all imports of the package. The inputs are
those of `behaviour_inputs`: every case of the corpus and of the folder AMQP10MSG_VECTORS, every
recording in tests/vectors and the package's data folders, and drawn inputs: N messages, N / 4
messages of 0-9-1, N / 20 values and N / 20 composites. Every third message is damaged.

All drawn messages run through decoding and encoding (strict, lenient, scan), `validate` in every
profile, the columns in every projection, and batch translation (a lossless round trip, and every
second of the other profiles in turn). Every second hundred runs through the typed, plain and CBOR
notations; one in 20 hundreds through the translation of single messages (in every profile,
alternating between strict mode and circumstances) and the filters; one in 50 through the annotated
forms. Fixed inputs run through every part, except that the annotated forms use one hundred in ten.
Files and jobs use the first drawn messages. `PARTS` has these numbers.

The package of this tree runs: its compiled modules, or the sources with AMQP10MSG_PURE=1. A record
is independent of Python's hash seed and, except for its first line, of the build: bytes below nulls
in Arrow's buffers, which differ between builds, are left out. One difference is intended: the
nesting depth that exhausts the interpreter's stack.
"""

from __future__ import annotations

import argparse
import base64
import json
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
from behaviour_inputs import DRAWN, Input, Inputs
from behaviour_parts import BUILD, CHUNK, PARTS, Found, Part, digest

#: Version of the record format: increase it if the same behaviour is recorded differently.
VERSION = 1
# Characters of an input's result hash (a difference is missed by chance in one of 4,096 inputs, but
# changes the line's own hash), and of a fixed input's key.
_EACH, _KEY = 2, 6


def _short(octets: bytes, length: int) -> str:
    return base64.b64encode(octets, b"-_")[:length].decode()


def _key(given: Input) -> bytes:
    """Return the key of a fixed input, which is independent of its position in the file."""
    return digest(repr(given))


@dataclass
class Recorder:
    """Writes a record, and measures the time of each part.

    Attributes:
        out: the record's file.
        inputs: all inputs.
        parts: the names of the parts to record.
        seconds: processor time by part, in seconds.
    """

    out: TextIO
    inputs: Inputs
    parts: Sequence[str]
    seconds: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        """Record all selected parts."""
        for group, count in self.inputs.counts.items():
            wanted = [(name, PARTS[name]) for name in self.parts if PARTS[name].run]
            for first in range(0, count, CHUNK):
                seen = [(name, part) for name, part in wanted if _sees(part, group, first)]
                if not seen:
                    continue
                begin = time.process_time()
                places = range(first, min(first + CHUNK, count))
                given = [self.inputs[group, place] for place in places]
                self.seconds["(drawing)"] += time.process_time() - begin  # type: ignore[assignment]
                for name, part in seen:
                    self._chunk(name, part, group, list(zip(places, given, strict=True)))
        for name in self.parts:
            texts = PARTS[name].texts
            if texts is not None:
                self._own(name, texts)

    def _chunk(self, name: str, part: Part, group: str, given: list[tuple[int, Input]]) -> None:
        chosen = [(place, one) for place, one in given if one.kind in part.kinds]
        if not chosen:
            return
        begin = time.process_time()
        found = found_of(part, group, chosen)
        self.seconds[name] += time.process_time() - begin  # type: ignore[assignment]
        keys = [_short(_key(one), _KEY) for _, one in chosen] if group not in DRAWN else []
        self._line(name, group, given[0][0], found, keys)

    def _own(self, name: str, texts: Callable[[Inputs], Iterator[tuple[str, str]]]) -> None:
        """Record a part that creates its own inputs."""
        begin = time.process_time()
        all_of = list(texts(self.inputs))
        self.seconds[name] += time.process_time() - begin  # type: ignore[assignment]
        for first in range(0, len(all_of), CHUNK):
            some = all_of[first : first + CHUNK]
            keys = [_short(digest(title), _KEY) for title, _ in some]
            self._line(name, "", first, Found([text for _, text in some]), keys)

    def _line(self, part: str, group: str, first: int, found: Found, keys: list[str]) -> None:
        hashes = [digest(text) for text in found.texts]
        line: dict[str, Any] = {
            "part": part,
            "group": group,
            "first": first,
            "hash": _short(digest(b"".join(hashes)), 10),
            "each": "".join(_short(one, _EACH) for one in hashes),
        }
        if keys:
            line["keys"] = "".join(keys)
        if found.whole:
            line["whole"] = {name: _short(octets, 6) for name, octets in found.whole.items()}
        self.out.write(json.dumps(line, separators=(",", ":")) + "\n")


def _sees(part: Part, group: str, first: int) -> bool:
    """Whether a part runs on this hundred of a group's inputs."""
    step = part.groups.get(group) if group in DRAWN else part.groups.get("", 1)
    return step is not None and first // CHUNK % step == 0


def found_of(part: Part, group: str, given: Sequence[tuple[int, Input]]) -> Found:
    """Run a part on the inputs of one group at these indexes.

    Additional steps are chosen by the index of a drawn input, and by the content of a fixed one,
    whose index may differ in the other tree.
    """
    assert part.run is not None
    numbers = [
        place if group in DRAWN else int.from_bytes(_key(one)[:4], "big") for place, one in given
    ]
    return part.run([one for _, one in given], numbers)


def record(out: Path, inputs: Inputs, parts: Sequence[str]) -> None:
    """Write a record, and print the time of each part."""
    begin = time.monotonic()
    about = {
        "behaviour": VERSION,
        "seed": inputs.seed,
        "drawn": inputs.drawn,
        "build": BUILD,
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
    }
    with out.open("w", encoding="utf-8", newline="\n") as file:
        file.write(json.dumps(about) + "\n")
        recorder = Recorder(file, inputs, parts)
        recorder.run()
    for name, seconds in recorder.seconds.most_common():
        print(f"{seconds:8.1f} s  {name}")
    total = sum(recorder.seconds.values())
    print(
        f"{total:8.1f} s of processor time, {time.monotonic() - begin:.1f} s in all: {out}, "
        f"{out.stat().st_size:,} bytes"
    )


# Comparing.

# Part, group, and the index of the first input.
_Place = tuple[str, str, int]


@dataclass
class Record:
    """A parsed record.

    Attributes:
        about: its first line.
        lines: the other lines by part, group and first index.
    """

    about: dict[str, Any]
    lines: dict[_Place, dict[str, Any]]

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read a record.

        Raises:
            ValueError: the file is not a record of this version.
        """
        with path.open(encoding="utf-8") as file:
            about, *lines = map(json.loads, file)
        if about.get("behaviour") != VERSION:
            raise ValueError(f"{path} is not a record of version {VERSION}: make it anew")
        places = {(line["part"], line["group"], line["first"]): line for line in lines}
        return cls(about, places)


@dataclass
class Difference:
    """The differing inputs of one part and group.

    Attributes:
        part: the name of the part.
        group: the group of the inputs; empty if the part creates its own.
        inputs: for each differing input, the index of the first input of its hundred and the number
            within the inputs that the part used; or the key of an input created by the part.
        whole: differing results of a whole hundred, with the index of its first input.
    """

    part: str
    group: str
    inputs: list[tuple[int, int] | str] = field(default_factory=list)
    whole: list[tuple[str, int]] = field(default_factory=list)


def differences(one: Record, other: Record, say: Callable[[str], None]) -> list[Difference]:
    """Return the differences between the lines that both records contain.

    Args:
        one: the first record.
        other: the second record, with the same seed.
        say: called with each additional remark, for example that the inputs differ.
    """
    found = []
    mine, its = _sorted(one), _sorted(other)
    for name in mine.keys() ^ its.keys():
        say(f"{' '.join(name)}: in one record alone")
    for name in mine.keys() & its.keys():
        compare = _by_place if name[1] in DRAWN else _by_key
        difference = compare(Difference(*name), mine[name], its[name], say)
        if difference.inputs or difference.whole:
            found.append(difference)
    order = list(PARTS)
    return sorted(found, key=lambda each: (order.index(each.part), each.group))


def _sorted(given: Record) -> dict[tuple[str, str], dict[int, dict[str, Any]]]:
    """Return the lines by part and group, sorted by index."""
    made: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for (part, group, first), line in given.lines.items():
        made.setdefault((part, group), {})[first] = line
    return made


_Lines = dict[int, dict[str, Any]]


def _by_place(
    made: Difference, mine: _Lines, its: _Lines, _say: Callable[[str], None]
) -> Difference:
    """Compare drawn inputs: equal indexes are equal inputs."""
    for first in sorted(mine.keys() & its.keys()):
        line, other = mine[first], its[first]
        if line == other:
            continue
        one, two = _cut(line["each"], _EACH), _cut(other["each"], _EACH)
        found = [i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b]
        if len(one) == len(two):  # otherwise one record ends here
            if line["hash"] != other["hash"] and not found:
                found = [0]  # the short hashes collide: report the first input of this hundred
            made.whole += _unlike(line, other)
        made.inputs += [(first, i) for i in found]
    return made


def _unlike(line: dict[str, Any], other: dict[str, Any]) -> list[tuple[str, int]]:
    one, two = line.get("whole", {}), other.get("whole", {})
    return [(name, line["first"]) for name in sorted(one) if one[name] != two.get(name)]


def _by_key(made: Difference, mine: _Lines, its: _Lines, say: Callable[[str], None]) -> Difference:
    """Compare fixed inputs, which may differ between the records, and inputs created by a part."""
    one, two = _keyed(mine), _keyed(its)
    for first in mine.keys() & its.keys():
        if mine[first]["keys"] == its[first]["keys"]:
            made.whole += _unlike(mine[first], its[first])
    changed = [key for key in one if key in two and one[key][1] != two[key][1]]
    alone = [*(key for key in one if key not in two), *(key for key in two if key not in one)]
    if made.group:
        made.inputs += [one[key][0] for key in changed]
        if alone:
            say(f"{made.part} {made.group}: {len(alone)} inputs in one record alone")
    else:
        made.inputs += [*changed, *alone]  # for example a row that is quarantined now
    return made


def _keyed(lines: _Lines) -> dict[str, tuple[tuple[int, int], str]]:
    found: dict[str, tuple[tuple[int, int], str]] = {}
    for first, line in sorted(lines.items()):
        pairs = zip(_cut(line["keys"], _KEY), _cut(line["each"], _EACH), strict=True)
        for i, (key, each) in enumerate(pairs):
            found[key] = ((first, i), each)
    return found


def _cut(text: str, length: int) -> list[str]:
    return [text[i : i + length] for i in range(0, len(text), length)]


def compare(first: Path, second: Path, most: int) -> int:
    """Print the differences between two records; return the exit status."""
    one, other = Record.read(first), Record.read(second)
    if one.about["seed"] != other.about["seed"]:
        print(f"the seeds are {one.about['seed']} and {other.about['seed']}: nothing to compare")
        return 2
    for record_, path in ((one, first), (other, second)):
        print(f"{path}: {record_.about}")
    found = differences(one, other, print)
    common = one.lines.keys() & other.lines.keys()
    if not common:
        print("the records have nothing in common")
        return 2
    inputs = Inputs(one.about["seed"], max(one.about["drawn"], other.about["drawn"]))
    for each in found:
        for line in _told(each, inputs, most):
            print(line)
    parts = sorted({each.part for each in found})
    verdict = f"differences in {', '.join(parts)}" if found else "no difference"
    print(f"{len(common):,} lines of up to {CHUNK} inputs are compared: {verdict}")
    return 1 if found else 0


def _told(found: Difference, inputs: Inputs, most: int) -> Iterator[str]:
    """Yield a description of a difference, and its first inputs."""
    yield f"\n{found.part} {found.group}: {len(found.inputs)} inputs differ"
    seed = f" --seed {inputs.seed}" if inputs.seed else ""
    names = Counter(name for name, _ in found.whole)
    for name, count in names.items():
        first = min(place for one, place in found.whole if one == name)
        yield f"  {name}: differs in {count} batches; first in that of {found.group} {first}"
    titles = _titles(found, inputs, most)
    for one in found.inputs[:most]:
        if isinstance(one, str):
            yield f"  {titles.get(one, 'what this tree does not make')}"
            if one in titles:
                yield f"  python tools/behaviour.py show{seed} {found.part} {titles[one]!r}"
            continue
        place, given = _seen(PARTS[found.part], found.group, inputs, *one)
        yield f"  {found.group} {place}: {given.shown()}"
        yield f"  python tools/behaviour.py show{seed} {found.part} {found.group} {place}"


def _titles(found: Difference, inputs: Inputs, most: int) -> dict[str, str]:
    """Return the names of the inputs that a part creates, by key."""
    texts = PARTS[found.part].texts
    if texts is None or not most:
        return {}
    return {_short(digest(title), _KEY): title for title, _ in texts(inputs)}


def _seen(part: Part, group: str, inputs: Inputs, first: int, number: int) -> tuple[int, Input]:
    """Return an input of a hundred by its number in the part, and its index."""
    chosen = [one for one in _hundred(group, inputs, first) if one[1].kind in part.kinds]
    return chosen[number]


def _hundred(group: str, inputs: Inputs, first: int) -> list[tuple[int, Input]]:
    stop = min(first + CHUNK, inputs.counts[group])
    return [(place, inputs[group, place]) for place in range(first, stop)]


def show(inputs: Inputs, name: str, where: Sequence[str]) -> Iterator[str]:
    """Yield an input, and the result of a part for it.

    Raises:
        ValueError: the part or the input does not exist.
    """
    part = PARTS.get(name)
    if part is None:
        raise ValueError(f"there is no part {name!r}: use one of {', '.join(PARTS)}")
    if part.texts is not None:
        for title, text in part.texts(inputs):
            if [title] == list(where):
                yield text
                return
        raise ValueError(f"{name} makes nothing of this name in this tree: {' '.join(where)}")
    if len(where) != 2 or where[0] not in inputs.counts:
        raise ValueError(f"name a group and a place: the groups are {', '.join(inputs.counts)}")
    group, place = where[0], int(where[1])
    given = inputs[group, place]
    yield given.shown()
    inputs.counts[group] = max(inputs.counts[group], place // CHUNK * CHUNK + CHUNK)
    if group not in DRAWN:
        inputs.counts[group] = len(inputs.fixed[group])
    seen = _hundred(group, inputs, place // CHUNK * CHUNK)
    chosen = [one for one in seen if one[1].kind in part.kinds]
    index = [one[0] for one in chosen].index(place)
    found = found_of(part, group, chosen)
    yield found.texts[index]
    for what, octets in found.whole.items():
        yield f"{what}: {octets.hex()} of this hundred"
    if part.alone is not None:
        yield from part.alone(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    record_ = commands.add_parser("record", help="write down what this tree does")
    record_.add_argument("out", type=Path)
    record_.add_argument("--drawn", type=int, default=200_000, help="messages to draw")
    record_.add_argument("--seed", type=int, default=0, help="of what is drawn")
    names = f"of {', '.join(PARTS)}; all where not given"
    record_.add_argument(
        "--part", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=names
    )
    compare_ = commands.add_parser("compare", help="say where two records differ")
    compare_.add_argument("first", type=Path)
    compare_.add_argument("second", type=Path)
    compare_.add_argument("--show", type=int, default=3, help="inputs of each part to print")
    show_ = commands.add_parser("show", help="print what this tree makes of one input")
    show_.add_argument("part", choices=PARTS, metavar="PART", help="as of record")
    show_.add_argument("where", nargs="+", help="a group and a place, or a name")
    show_.add_argument("--seed", type=int, default=0, help="of what is drawn")
    chosen = parser.parse_args(given)
    if chosen.command == "record":
        record(chosen.out, Inputs(chosen.seed, chosen.drawn), chosen.part)
        return 0
    if chosen.command == "compare":
        return compare(chosen.first, chosen.second, chosen.show)
    try:
        for text in show(Inputs(chosen.seed, 0), chosen.part, chosen.where):
            print(text.encode("utf-8", "backslashreplace").decode())
    except (ValueError, IndexError) as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
