"""Tests of a group run on one worker, as what they share is started once, or is one folder."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("one")
def test_a_group_is_part_of_the_id(request: pytest.FixtureRequest) -> None:
    if not hasattr(request.config, "workerinput"):
        pytest.skip("one process runs all tests")

    assert request.node.nodeid.endswith("@one"), "this pytest-xdist does not know this pytest"
