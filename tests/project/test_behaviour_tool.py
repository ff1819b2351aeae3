"""The tool that holds a large change to what the tree did before: tools/behaviour.py."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: make setup")

import behaviour
import behaviour_parts
from behaviour_inputs import DRAWN, VECTORS, Inputs

from amqp10msg import columns

pytestmark = pytest.mark.once
COUNT = 150


@pytest.fixture(autouse=True)
def _without_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VECTORS, raising=False)


def record(path: Path, *parts: str, drawn: int = COUNT, root: Path | None = None) -> Path:
    """Write a record of drawn inputs, and of the fixed ones below a folder, if there is one."""
    inputs = Inputs(3, drawn, root or path.parent / "nowhere")
    behaviour.record(path, inputs, parts or list(behaviour_parts.PARTS))
    return path


def test_what_is_drawn_hangs_on_the_seed_and_the_place_alone() -> None:
    few, many = Inputs(3, 40), Inputs(3, 4_000)

    backwards = [[many[group, i] for i in reversed(range(40))][::-1] for group in DRAWN]

    assert [[few[group, i] for i in range(40)] for group in DRAWN] == backwards
    assert few["messages", 0] != Inputs(4, 40)["messages", 0]


def test_what_is_drawn_stays() -> None:
    """Else no record of an earlier tree says anything of this one."""
    inputs = Inputs(0, 0)

    drawn = {
        group: behaviour_parts.digest(repr([inputs[group, i] for i in range(1_000)])).hex()
        for group in DRAWN
    }

    assert {
        "messages": "a71e8883f76e6723",
        "basics": "1245470e33ea20a2",
        "composites": "a71a3a24dc681ef9",
        "values": "fe8c6baaca5cb266",
    } == drawn


def test_a_tree_does_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every part but those that run whole jobs, twice; the second time of fewer inputs."""
    parts = [name for name in behaviour_parts.PARTS if name not in {"jobs", "files"}]
    one = record(tmp_path / "one", *parts)
    other = record(tmp_path / "other", *parts, drawn=COUNT // 2)
    seen = {json.loads(line).get("part") for line in one.read_text().splitlines()[1:]}

    assert 0 == behaviour.compare(one, other, 3)
    assert "no difference" in capsys.readouterr().out
    # Those that are left out here see fixed inputs alone.
    assert set(parts) - {"tables", "filter-values"} == seen


def _loss(translate: Callable[..., Any]) -> Callable[..., Any]:
    """Translate with another text of losses that are of one kind."""

    def changed(*args: Any, **options: Any) -> Any:
        made = translate(*args, **options)
        losses = [
            attrs.evolve(one, reason=one.reason + "!") if one.path == "header" else one
            for one in made.losses
        ]
        return attrs.evolve(made, losses=tuple(losses))

    return changed


def _offset(validate: Callable[..., Any]) -> Callable[..., Any]:
    """Judge with another offset of one rule."""

    def changed(*args: Any, **options: Any) -> Any:
        return [
            attrs.evolve(one, offset=one.offset + 1) if one.rule == "truncated" else one
            for one in validate(*args, **options)
        ]

    return changed


def _byte(encode: Callable[..., bytes]) -> Callable[..., bytes]:
    """Encode content headers with another weight where they are long."""

    def changed(*args: Any, **options: Any) -> bytes:
        made = encode(*args, **options)
        return made[:3] + b"\1" + made[4:] if len(made) > 300 else made

    return changed


CHANGES: list[tuple[str, str, Callable[..., Any]]] = [
    ("to-basic", "to_basic", _loss),
    ("validate", "validate", _offset),
    ("basic", "encode_content_header", _byte),
]


@pytest.mark.parametrize("part, name, change", CHANGES, ids=[part for part, _, _ in CHANGES])
def test_a_difference_is_found_and_its_input_printed(
    part: str,
    name: str,
    change: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    drawn = 4 * COUNT  # of 0-9-1 there are a quarter
    before = record(tmp_path / "before", part, drawn=drawn)
    command = ["show", "--seed", "3", part]
    with monkeypatch.context() as patch:
        patch.setattr(behaviour_parts, name, change(getattr(behaviour_parts, name)))
        after = record(tmp_path / "after", part, drawn=drawn)
        capsys.readouterr()
        status = behaviour.compare(before, after, 1)
        said = capsys.readouterr().out
        line = next(line for line in said.splitlines() if "behaviour.py show" in line)
        given = shlex.split(line)[2:]
        behaviour.main(given)
        changed = capsys.readouterr().out
    behaviour.main(given)
    was = capsys.readouterr().out

    assert 1 == status
    assert command == given[:4]
    data = next(line for line in said.splitlines() if line.startswith("  data: "))
    assert data in was
    assert was != changed


def test_what_stands_in_columns_together_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether a projection whose rows are not written down one by one is compared as bytes."""
    before = record(tmp_path / "before", "columns")
    decode = columns.decode

    def changed(array: Any, *args: Any, **options: Any) -> Any:
        batch = decode(array, *args, **options)
        if options.get("maps") != "variant" or "body" not in batch.schema.names:
            return batch
        place = batch.schema.get_field_index("body")
        cells = batch.column(place).to_pylist()
        cells[7] = b"another"
        return batch.set_column(place, batch.schema.field(place), [cells])

    monkeypatch.setattr(columns, "decode", changed)
    after = record(tmp_path / "after", "columns")

    assert 1 == behaviour.compare(before, after, 3)
    said = capsys.readouterr().out
    assert "lean variant: differs in 2 batches; first in that of messages 0" in said
    assert "columns messages: 0 inputs differ" in said


def cases(root: Path, *names: str) -> Path:
    """Write a corpus of so many cases."""
    folder = root / "amqp10msg" / "interop" / "corpus" / "data"
    folder.mkdir(parents=True)
    lines = [
        json.dumps({"id": name, "kind": "value", "data": name.encode().hex()}) for name in names
    ]
    (folder / "values.jsonl").write_text("\n".join(lines))
    return root


def test_fixed_inputs_are_compared_wherever_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"case-{i}" for i in range(COUNT)]
    one = cases(tmp_path / "one", *names)
    other = cases(tmp_path / "other", "new", *names[:50], *names[51:])
    before = record(tmp_path / "before", "wire", "values", drawn=0, root=one)
    after = record(tmp_path / "after", "wire", "values", drawn=0, root=other)

    assert 0 == behaviour.compare(before, after, 0)
    assert "values data/values: 2 inputs in one record alone" in capsys.readouterr().out

    monkeypatch.setattr(behaviour_parts, "skip_value", len)
    after = record(tmp_path / "after", "wire", "values", drawn=0, root=other)

    assert 1 == behaviour.compare(before, after, 0)
    assert f"values data/values: {COUNT - 1} inputs differ" in capsys.readouterr().out


def test_what_a_part_makes_itself_has_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = record(tmp_path / "before", "filter-makes", drawn=0)
    made = [(name, one) for name, one in behaviour_parts._filters() if "JMSPriority" not in name]
    monkeypatch.setattr(behaviour_parts, "_filters", lambda: made)
    after = record(tmp_path / "after", "filter-makes", drawn=0)
    monkeypatch.undo()

    assert 1 == behaviour.compare(before, after, 3)
    said = capsys.readouterr().out
    assert "filter-makes : 1 inputs differ" in said
    assert "selector 'JMSPriority > 3'" in said


def test_records_of_other_seeds_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = record(tmp_path / "one", "schemas", drawn=0)
    behaviour.record(tmp_path / "other", Inputs(4, 0, tmp_path), ["schemas"])

    assert 2 == behaviour.compare(one, tmp_path / "other", 3)
    assert "the seeds are 3 and 4" in capsys.readouterr().out


def test_what_the_tool_does_not_know_is_no_behaviour() -> None:
    """Else a class that the package has anew would be written down as a failure for ever."""
    with pytest.raises(TypeError, match="what is a object"):
        behaviour_parts._tried(lambda: behaviour_parts.told(object()))
    assert "TypeError" in behaviour_parts._tried(lambda: columns.decode(5).num_rows)
