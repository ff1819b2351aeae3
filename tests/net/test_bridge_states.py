"""The states of a route: every sequence of events leads to its end, and only the table decides."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg.net.bridge.lifecycle import TRANSITIONS, Event, Lifecycle, State
from amqp10msg.net.bridge.statistics import ENDINGS, Statistics

pytestmark = pytest.mark.once
FINAL = {State.ENDED, State.FAILED}
#: The states before the route ends.
BEGINNING = {State.STARTING, State.STANDBY, State.DECLARING, State.RUNNING}
#: The order in which a route passes its states; FAILING may follow STOPPING.
ORDER = {state: number for number, state in enumerate(State)}


def lifecycle() -> tuple[Lifecycle, Statistics]:
    counts = Statistics()
    return Lifecycle(counts), counts


def test_every_state_can_be_stopped_and_can_fail() -> None:
    assert TRANSITIONS.keys() == set(State)
    for state, transitions in TRANSITIONS.items():
        assert {Event.STOP, Event.FAIL} <= transitions.keys(), state


def test_states_are_never_passed_backwards() -> None:
    for state, transitions in TRANSITIONS.items():
        for following in transitions.values():
            assert ORDER[following] >= ORDER[state]


def test_ended_route_stays_ended() -> None:
    for state in FINAL:
        assert {state} == set(TRANSITIONS[state].values())


@st.composite
def runs(draw: st.DrawFn) -> list[Event]:
    """Events that may occur in a route, in an order that its table allows, up to its end."""
    state, events = State.STARTING, list[Event]()
    while state not in FINAL:
        event = draw(st.sampled_from(sorted(TRANSITIONS[state], key=lambda event: event.value)))
        state = TRANSITIONS[state][event]
        events.append(event)
    return events


@given(events=runs(), endings=st.lists(st.sampled_from(sorted(ENDINGS.keys() - {"failed"}))))
def test_state_and_reason_of_the_end(events: list[Event], endings: list[str]) -> None:
    route, counts = lifecycle()
    stops = list[int]()
    route.on_fail = lambda: stops.append(1)
    reasons, errors = list[str](), list[BaseException]()
    for number, event in enumerate(events):
        if event is Event.STOP:
            reasons.append((*endings, "stopped")[min(number, len(endings))])
            route.stop(reasons[-1])
        elif event is Event.FAIL:
            errors.append(OSError(number))
            route.fail(errors[-1], of_record=number % 2 == 0)
        else:
            route.advance(event)
        assert route.is_ending == (route.state not in BEGINNING)
        assert (route.state in {State.FAILING, State.FAILED}) == bool(errors)

    assert counts.state == ("failed" if errors else "ended")
    assert counts.failed == bool(errors)
    assert route.fault is (errors[0] if errors else None)
    assert stops == [1] * bool(errors)  # the source is stopped once
    if errors:
        assert counts.ending == "failed"
    else:
        assert counts.ending == (reasons[0] if reasons else "")


@pytest.mark.parametrize("state", [state for state in State if state is not State.RUNNING])
def test_only_a_running_route_reports_its_activity(state: State) -> None:
    route, counts = lifecycle()
    route.state = state
    route.report_activity("running")

    assert counts.state == "starting"

    route.state = State.RUNNING
    route.report_activity("target is not connected")

    assert counts.state == "target is not connected"


@pytest.mark.parametrize(
    "state, event",
    [
        (state, event)
        for state in State
        for event in Event
        if event not in {Event.STOP, Event.FAIL} and event not in TRANSITIONS[state]
    ],
)
def test_event_that_cannot_occur_is_an_error(state: State, event: Event) -> None:
    route: Any = lifecycle()[0]
    route.state = state
    with pytest.raises(KeyError):
        route.advance(event)
