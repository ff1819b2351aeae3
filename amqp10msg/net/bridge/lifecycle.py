"""The states of a route: `State`, and in `TRANSITIONS` every transition between them.

A route starts, moves messages, and ends, because it is stopped or because of an error. Before it
moves messages, a route with a state file is in standby while another process runs the same route,
and a route with `RouteOptions.declare` declares the source's queue at the target.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Callable, Mapping

from amqp10msg.net.bridge.statistics import Statistics


class State(enum.Enum):
    """The state of a route."""

    #: The route has not begun, or opens its files.
    STARTING = "starting"
    #: The route waits for the end of another process, which runs the same route.
    STANDBY = "another bridge runs it"
    #: The route declares the source's queue at the target.
    DECLARING = "declaring"
    #: The route moves messages, or connects to do so.
    RUNNING = "running"
    #: The route accepts no deliveries. It waits for outcomes, and closes its links.
    STOPPING = "stopping"
    #: The same after an error. The route waits for outcomes only if the error is one of its files.
    FAILING = "failing"
    #: The route has ended without an error.
    ENDED = "ended"
    #: The route has ended because of an error.
    FAILED = "failed"


class Event(enum.Enum):
    """An event that changes the state of a route."""

    #: Another process runs the same route.
    WAIT = "wait"
    #: The route begins to declare the source's queue.
    DECLARE = "declare"
    #: The route opens its links.
    OPEN = "open"
    #: The user or an option of the route ends it.
    STOP = "stop"
    #: The route cannot continue, because of an error.
    FAIL = "fail"
    #: The links and files of the route are closed.
    END = "end"


#: The next state, by state and event. A missing event cannot occur in the state.
TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    State.STARTING: {
        Event.WAIT: State.STANDBY,
        Event.DECLARE: State.DECLARING,
        Event.OPEN: State.RUNNING,
        Event.STOP: State.STOPPING,
        Event.FAIL: State.FAILING,
    },
    State.STANDBY: {
        Event.WAIT: State.STANDBY,
        Event.DECLARE: State.DECLARING,
        Event.OPEN: State.RUNNING,
        Event.STOP: State.STOPPING,
        Event.FAIL: State.FAILING,
    },
    State.DECLARING: {
        Event.OPEN: State.RUNNING,
        Event.STOP: State.STOPPING,
        Event.FAIL: State.FAILING,
    },
    State.RUNNING: {
        Event.STOP: State.STOPPING,
        Event.FAIL: State.FAILING,
        Event.END: State.ENDED,  # its task was cancelled
    },
    State.STOPPING: {
        # A route that was stopped before it began goes through its start, and then ends.
        Event.WAIT: State.STOPPING,
        Event.DECLARE: State.STOPPING,
        Event.OPEN: State.STOPPING,
        Event.STOP: State.STOPPING,
        Event.FAIL: State.FAILING,
        Event.END: State.ENDED,
    },
    State.FAILING: {
        Event.STOP: State.FAILING,
        Event.FAIL: State.FAILING,
        Event.END: State.FAILED,
    },
    State.ENDED: {Event.STOP: State.ENDED, Event.FAIL: State.ENDED},
    State.FAILED: {Event.STOP: State.FAILED, Event.FAIL: State.FAILED},
}
#: The states in which a route starts nothing, because it ends or has ended.
_ENDING_STATES = {State.STOPPING, State.FAILING, State.ENDED, State.FAILED}
#: The states whose value becomes `Statistics.state`. A running route reports its activity instead,
#: and an ending route keeps the last text until it waits for outcomes.
_REPORTED_STATES = {State.STANDBY, State.DECLARING, State.ENDED, State.FAILED}


class Lifecycle:
    """The state of a route, and the reason for its end.

    Args:
        statistics: the statistics of the route, which report the state.

    Attributes:
        state: the state. The methods change it according to `TRANSITIONS`.
        fault: the error that the route fails with; None without an error.
        has_record_fault: whether the quarantine, state or deduplication file has failed. Outcomes
            still arrive then, and the route waits for them.
        started_at: time of the start, in seconds of the event loop's clock.
        on_fail: called at the first error.
    """

    def __init__(self, statistics: Statistics) -> None:
        self.state = State.STARTING
        self.fault: BaseException | None = None
        self.has_record_fault = False
        self.started_at = 0.0
        self.on_fail: Callable[[], None] = lambda: None
        self._statistics = statistics
        self._first_opened_at = 0.0  # when the source was first open, on the same clock
        self._stopped = asyncio.Event()

    @property
    def is_ending(self) -> bool:
        """Whether the route ends or has ended, so that nothing may be started."""
        return self.state in _ENDING_STATES

    def begin(self) -> None:
        """Record the time of the start.

        Raises:
            RuntimeError: the route has started before.
        """
        if self.started_at:
            raise RuntimeError("a route runs only once: create another Route")
        self.started_at = asyncio.get_running_loop().time()

    def advance(self, event: Event) -> None:
        """Change the state because of `event`, one of WAIT, DECLARE, OPEN and END."""
        self.state = TRANSITIONS[self.state][event]
        if self.state in _REPORTED_STATES:
            self._statistics.state = self.state.value

    def stop(self, ending: str) -> None:
        """Start to end the route. `ending` is the reason, a key of `ENDINGS`."""
        self.advance(Event.STOP)
        if ending in {"count", "length"}:
            self._statistics.asked = False  # discard the count of an earlier query
            self._statistics.remaining = self._statistics.unacknowledged = None
        self._statistics.ending = self._statistics.ending or ending
        self._stopped.set()

    def fail(self, error: BaseException, *, of_record: bool = False) -> None:
        """Start to end the route because of `error`; only the first error is kept.

        `of_record` is whether the quarantine, state or deduplication file has failed.
        """
        self.advance(Event.FAIL)
        self.has_record_fault = self.has_record_fault or of_record
        if self.fault is None:
            self.fault = error
            self._statistics.ending = "failed"
            self.on_fail()
        self._stopped.set()

    def report_activity(self, text: str) -> None:
        """Describe in the statistics what the route does, if it is running."""
        if self.state is State.RUNNING:
            self._statistics.state = text

    def report_draining(self) -> None:
        """Report in the statistics that the route waits for outcomes."""
        self._statistics.state = "draining"

    def update_duration(self) -> None:
        """Store the time since the start in the statistics."""
        self._statistics.seconds = asyncio.get_running_loop().time() - self.started_at

    def source_opened(self) -> None:
        """Record that the source was opened. `Statistics.busy` begins when it is first opened."""
        if not self._first_opened_at:
            self._first_opened_at = asyncio.get_running_loop().time()

    def update_busy(self) -> None:
        """Store in the statistics how many seconds ago the source was first opened."""
        self._statistics.busy = asyncio.get_running_loop().time() - self._first_opened_at

    async def wait_for_stop(self, seconds: float) -> bool:
        """Wait for the begin of the end, for at most `seconds`. Return whether the route ends."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        return self._stopped.is_set()
