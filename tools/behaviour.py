"""Write down what a tree does over fixed inputs, and compare two such records.

    python tools/behaviour.py record before.jsonl
    python tools/behaviour.py record after.jsonl          # in the other tree
    python tools/behaviour.py compare before.jsonl after.jsonl
    python tools/behaviour.py show to-basic messages 4711 # in each: what to look at

A record has a line of JSON for each part and each hundred inputs: a hash of what became of them,
and a short one for each input. So `compare` names the inputs that differ, and makes them again:
drawn ones from the seed and their place, fixed ones from their files. It says how many inputs
differ in each part, and ends with 1 where some do. Only what both records have is compared. A fixed
input is found wherever it stands; but a batch of translations that begins with another input is
made in other profiles, so a tree with other cases or recordings is held to a record of `--part`s
without batches, or gets the files of the other tree first.

The parts are those of `behaviour_parts`, which has all imports of the package; the inputs are
those of `behaviour_inputs`: every case of the corpus and of AMQP10MSG_VECTORS (a folder), every
recording in tests/vectors and the package's data folders, and drawn ones: N messages, N / 4
messages of 0-9-1, N / 20 values and composites each; each third of the messages is damaged.

All drawn messages go through decoding and encoding (strict, lenient, scan), `validate` in every
profile, the columns in every projection, and the batches of translation (there and back without
losses, and in half of the other profiles in turn); each second hundred through the typed, plain
and CBOR notations; one of 20 through the translation of single messages (in every profile, and in
turn strictly or with circumstances) and the filters; one of 50 through the annotated forms. Of
fixed inputs all go through every part, but for the annotated forms, which see one hundred of ten.
Files and jobs run on the first drawn messages. The figures stand beside `PARTS`.

It is the package of this tree that runs, as it was compiled, or its sources with AMQP10MSG_PURE=1.
Neither the seed of Python's hashes nor the build shows in a record, but for its first line; so
what stands below nulls in Arrow's buffers, where the builds differ, is left out. One difference of
the builds is by design: which values are nested too deeply for the interpreter's stack.
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

#: Changes where a record of this tool says something else of the same behaviour.
VERSION = 1
# Characters of the hash of one input: two records agree by chance in 4,096; the line's own hash
# tells that, too. And of what stands for a fixed input.
_EACH, _KEY = 2, 6


def _short(octets: bytes, length: int) -> str:
    return base64.b64encode(octets, b"-_")[:length].decode()


def _key(given: Input) -> bytes:
    """Return what stands for a fixed input, wherever it stands in its file."""
    return digest(repr(given))


@dataclass
class Recorder:
    """Writes a record, and knows what took how long.

    Attributes:
        out: the file.
        inputs: all inputs.
        parts: the names of those that are wanted.
        seconds: of processor time, by part.
    """

    out: TextIO
    inputs: Inputs
    parts: Sequence[str]
    seconds: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        """Write down everything."""
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
        """Write down what a part makes of inputs of its own."""
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
    """Whether a part sees these hundred inputs of a group."""
    step = part.groups.get(group) if group in DRAWN else part.groups.get("", 1)
    return step is not None and first // CHUNK % step == 0


def found_of(part: Part, group: str, given: Sequence[tuple[int, Input]]) -> Found:
    """Run a part on inputs of one group, which stand at these places.

    What is done beside the usual hangs on the place of a drawn input, and on what a fixed one is:
    its place may be another in the other tree.
    """
    assert part.run is not None
    numbers = [
        place if group in DRAWN else int.from_bytes(_key(one)[:4], "big") for place, one in given
    ]
    return part.run([one for _, one in given], numbers)


def record(out: Path, inputs: Inputs, parts: Sequence[str]) -> None:
    """Write a record, and say what took how long."""
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

# Part, group, and the place of the first input.
_Place = tuple[str, str, int]


@dataclass
class Record:
    """A record that was read.

    Attributes:
        about: its first line.
        lines: the others, by what they are about.
    """

    about: dict[str, Any]
    lines: dict[_Place, dict[str, Any]]

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read a record.

        Raises:
            ValueError: this is not a record of this version.
        """
        with path.open(encoding="utf-8") as file:
            about, *lines = map(json.loads, file)
        if about.get("behaviour") != VERSION:
            raise ValueError(f"{path} is not a record of version {VERSION}: make it anew")
        places = {(line["part"], line["group"], line["first"]): line for line in lines}
        return cls(about, places)


@dataclass
class Difference:
    """What differs in some inputs of one part and group.

    Attributes:
        part: its name.
        group: of the inputs; empty where the part makes its own.
        inputs: of those that differ, the place of the first of their hundred, and which of those
            that the part saw; or what stands for an input that the part made.
        whole: what differs of a hundred together, and the place of the first of them.
    """

    part: str
    group: str
    inputs: list[tuple[int, int] | str] = field(default_factory=list)
    whole: list[tuple[str, int]] = field(default_factory=list)


def differences(one: Record, other: Record, say: Callable[[str], None]) -> list[Difference]:
    """Return what differs, of what both records have.

    Args:
        one: a record.
        other: another one, of the same seed.
        say: takes what else is to be said, such as that they are of other inputs.
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
    """Return the lines by part and group, then by place."""
    made: dict[tuple[str, str], dict[int, dict[str, Any]]] = {}
    for (part, group, first), line in given.lines.items():
        made.setdefault((part, group), {})[first] = line
    return made


_Lines = dict[int, dict[str, Any]]


def _by_place(
    made: Difference, mine: _Lines, its: _Lines, _say: Callable[[str], None]
) -> Difference:
    """Compare drawn inputs: the same place is the same input."""
    for first in sorted(mine.keys() & its.keys()):
        line, other = mine[first], its[first]
        if line == other:
            continue
        one, two = _cut(line["each"], _EACH), _cut(other["each"], _EACH)
        found = [i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b]
        if len(one) == len(two):  # else one record ends here
            if line["hash"] != other["hash"] and not found:
                found = [0]  # short hashes that agree by chance: one of this hundred
            made.whole += _unlike(line, other)
        made.inputs += [(first, i) for i in found]
    return made


def _unlike(line: dict[str, Any], other: dict[str, Any]) -> list[tuple[str, int]]:
    one, two = line.get("whole", {}), other.get("whole", {})
    return [(name, line["first"]) for name in sorted(one) if one[name] != two.get(name)]


def _by_key(made: Difference, mine: _Lines, its: _Lines, say: Callable[[str], None]) -> Difference:
    """Compare fixed inputs, of which one record may have others, and what a part itself made."""
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
        made.inputs += [*changed, *alone]  # such as a row that is in quarantine now
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
    """Say how two records differ; return the status to end with."""
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
    """Yield what differs in words, and the first inputs of it."""
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
    """Return the names of inputs that a part makes itself, by what stands for them."""
    texts = PARTS[found.part].texts
    if texts is None or not most:
        return {}
    return {_short(digest(title), _KEY): title for title, _ in texts(inputs)}


def _seen(part: Part, group: str, inputs: Inputs, first: int, number: int) -> tuple[int, Input]:
    """Return one of the inputs of a hundred that a part saw, and its place."""
    chosen = [one for one in _hundred(group, inputs, first) if one[1].kind in part.kinds]
    return chosen[number]


def _hundred(group: str, inputs: Inputs, first: int) -> list[tuple[int, Input]]:
    stop = min(first + CHUNK, inputs.counts[group])
    return [(place, inputs[group, place]) for place in range(first, stop)]


def show(inputs: Inputs, name: str, where: Sequence[str]) -> Iterator[str]:
    """Yield an input, and what a part writes down of it.

    Raises:
        ValueError: there is no such part or input.
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
    """Run; return the exit status."""
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
