"""Tests of a group, or of a file, run on one worker: what they share is started once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.xdist_group("one")
def test_group_is_part_of_the_id(request: pytest.FixtureRequest) -> None:
    if not hasattr(request.config, "workerinput"):
        pytest.skip("one process runs all tests")

    assert request.node.nodeid.endswith("@one"), "this pytest-xdist does not know this pytest"


IDS = st.builds(
    "tests/test_{}.py::test_{}{}".format,
    st.sampled_from("abc"),
    st.integers(0, 150),
    st.sampled_from(["", "", "[x@y]", "@g", "[x@y]@h"]),
)


@given(st.lists(IDS, unique=True, max_size=200))
def test_units_are_groups_files_or_pieces(ids: list[str]) -> None:
    scheduling = pytest.importorskip("tests.scheduling", reason="needs pytest-xdist")

    found = scheduling.units(ids)

    assert set(ids) == set(found)
    parts: dict[str, list[str]] = {}
    for one, unit in found.items():
        parts.setdefault(unit, []).append(one)
    quick = [unit for unit in parts if " " in unit]
    assert quick == [*parts][len(parts) - len(quick) :]  # and so the last
    for unit, together in parts.items():
        if unit in {"g", "h"}:
            assert {one for one in ids if one.endswith(f"@{unit}")} == set(together)
        else:
            of_file = [one for one in ids if one.startswith(unit.split(" ")[0] + "::")]
            alone = [one for one in of_file if not one.endswith(("@g", "@h"))]
            assert set(together) <= set(alone)
            assert (len(alone) > scheduling.MAX_WHOLE_FILE) == (unit in quick)
            assert len(together) <= scheduling.PIECE_SIZE or unit not in quick
            assert unit in quick or together == alone
