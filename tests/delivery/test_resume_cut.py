"""A link that is cut: every message once, whatever is lost, and a simulator that sees it."""

from __future__ import annotations

import random
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg.delivery import Received, ResumeAction, Step, resume
from tests.delivery.link_simulator import Link

NEW, RESUME, SETTLE, RESTATE, ABORT, REPORT, NOTHING = ResumeAction


@pytest.mark.once
@given(st.integers(0, 2**32), st.booleans(), st.booleans(), st.booleans())
def test_exactly_once_whatever_is_lost(
    seed: int, discards: bool, incomplete: bool, spontaneous: bool
) -> None:
    """Each message takes effect once, and the source and the target agree on which."""
    for chances in map(random.Random, range(seed, seed + 5)):
        link = Link(chances, discards=discards, incomplete=incomplete, spontaneous=spontaneous)

        link.run()

        assert [] == link.lost
        assert sorted(link.payloads) == sorted(link.effects)
        assert link.archived == link.effects


@pytest.mark.once
@given(st.integers(0, 2**32), st.booleans())
def test_what_a_receiver_forgets_comes_again_or_is_reported(seed: int, retains: bool) -> None:
    """No message is lost in silence, and none takes effect twice."""
    link = Link(random.Random(seed), discards=True, retains=retains, forgets=True)

    link.run()

    assert not (retains and link.lost)
    assert sorted(link.payloads) == sorted([*link.effects, *link.lost])
    assert link.archived == link.effects


def holds(seed: int, *, spontaneous: bool = False) -> bool:
    try:
        Link(random.Random(seed), spontaneous=spontaneous).run()
    except AssertionError:
        return False
    return True


@pytest.mark.once
def test_the_simulator_sees_every_action() -> None:
    """Without this, a simulator in which nothing happens could pass for a proof."""
    seen: set[ResumeAction] = set()
    for seed in range(150):
        link = Link(
            random.Random(seed),
            discards=True,
            retains=bool(seed % 2),
            forgets=bool(seed % 3),
            spontaneous=True,
        )
        link.run()
        seen |= link.seen

    assert set(ResumeAction) == seen


@pytest.mark.once
def test_the_simulator_sees_a_plan_that_sends_accepted_messages_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def resend(*arguments: Any, **options: Any) -> Any:
        plan = resume(*arguments, **options)
        anew = {
            tag: Step(tag, NEW, resume=False, start=Received(0, 0), keeps=True)
            for tag, step in plan.items()
            if step.action is SETTLE
        }
        return attrs.evolve(plan, steps={**plan.steps, **anew})

    assert all(holds(seed) for seed in range(50))
    monkeypatch.setattr("tests.delivery.link_simulator.resume", resend)

    assert not all(holds(seed) for seed in range(50))


@pytest.mark.once
def test_the_simulator_sees_a_receiver_that_does_not_wait_for_an_abort(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def impatient(*arguments: Any, **options: Any) -> Any:
        return attrs.evolve(resume(*arguments, **options), held_at_receiver=())

    assert all(holds(seed, spontaneous=True) for seed in range(400))
    monkeypatch.setattr("tests.delivery.link_simulator.resume", impatient)

    assert not all(holds(seed, spontaneous=True) for seed in range(400))
