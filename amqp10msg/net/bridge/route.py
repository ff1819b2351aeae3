"""A route: moves the messages of one source to one target.

The path of a message through the objects of a route:

    source link       receives the delivery                            amqp10, basic, files
    `SourceEnd`       keeps that link connected, limits the memory     source_end
    `Intake`          sorts out surplus, duplicate and unmatched ones  intake
    `Pending`         keeps the delivery until it is sent              unsettled
    `TargetEnd`       translates and sends it, receives its outcome    target_end, sending
    target link       sends or writes the message                      amqp10, basic, files, parquet
    `Refusals`        retries a refused message, or quarantines it     refusals
    `Settlement`      writes the records; then settles the delivery    settlement, records

`Coupling` builds these objects, runs and closes them. `Ending` and `SourceWatch` decide when the
route ends. Any of them can stop the route or let it fail: `Lifecycle` has its state. A delivery is
pending until the target reports its outcome. Then it is finished: in the next iteration of the
event loop, its quarantine line, message-id or position is written to disk, and it is settled at the
source. `Unsettled` lists all states of a delivery.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from amqp10msg.net.bridge.context import RouteContext
from amqp10msg.net.bridge.coupling import Coupling
from amqp10msg.net.bridge.ending import Ending
from amqp10msg.net.bridge.lifecycle import Event, State
from amqp10msg.net.bridge.options import RouteOptions
from amqp10msg.net.bridge.records import Lease, Records
from amqp10msg.net.bridge.statistics import Statistics
from amqp10msg.net.ends.terms import LinkError
from amqp10msg.net.ends.urls import Endpoint
from amqp10msg.net.ends.wire import ConnectionPools


class Route:
    """Moves messages from one source to one target until it is stopped or ends by its options.

    Args:
        name: the name of the route in logs and reports.
        source: the endpoint to receive from.
        target: the endpoint to send to.
        options: the options.
        logger: receives events; see `log_event`.
        pools: connections to share with other routes; None to open connections for this route.
    """

    def __init__(
        self,
        name: str,
        source: Endpoint,
        target: Endpoint,
        options: RouteOptions,
        logger: logging.Logger,
        pools: ConnectionPools | None = None,
    ) -> None:
        self._context = RouteContext(
            name, source, target, options, logger, pools or ConnectionPools()
        )
        self._ending = Ending(self._context)
        self._coupling: Coupling | None = None  # None until the files of the route are open

    @property
    def name(self) -> str:
        """The name of the route in logs and reports."""
        return self._context.name

    @property
    def source(self) -> Endpoint:
        """The endpoint to receive from."""
        return self._context.source

    @property
    def target(self) -> Endpoint:
        """The endpoint to send to."""
        return self._context.target

    @property
    def options(self) -> RouteOptions:
        """The options of the route."""
        return self._context.options

    @property
    def statistics(self) -> Statistics:
        """The counts of the route."""
        return self._context.statistics

    @property
    def source_product(self) -> str:
        """Name and version of the connected source, such as ``RabbitMQ 4.0.5``; may be empty."""
        return self._coupling.source_product if self._coupling is not None else ""

    def log(self, event: str, level: int = logging.INFO, **fields: Any) -> None:
        """Log an event with the name of the route."""
        self._context.log(event, level, **fields)

    async def depth(self) -> int | None:
        """Query the number of messages at the source. Return the previous answer, or None."""
        return await self._coupling.depth() if self._coupling is not None else None

    def stop(self) -> None:
        """Start to end the route: it accepts no more deliveries, and waits for outcomes."""
        self._context.lifecycle.stop("stopped")

    async def run(self) -> None:
        """Run until `stop` is called or the route ends by its options.

        Raises:
            LinkError: the source or target cannot be used: wrong credentials, no such queue.
            OSError: a message could not be written to the quarantine; it was not settled.
            RuntimeError: the route runs, or has run before.
        """
        self._context.lifecycle.begin()
        if self.options.state is None:
            await self._run()
            return
        lease = Lease(self.options.state, self.name)
        try:
            if await self._acquire(lease):
                await self._run()
        except OSError as error:
            self._report_failure(error)
            raise
        finally:
            lease.release()

    def _report_failure(self, error: Exception) -> None:
        """Record and log that the route failed before it ran, unless this was done before."""
        if not self.statistics.failed:
            self._context.lifecycle.fail(error)
            self._context.lifecycle.advance(Event.END)
            self.log("route-failed", logging.ERROR, why=str(error))

    async def _acquire(self, lease: Lease) -> bool:
        """Acquire `lease`: wait until no other bridge runs this route.

        Return False if the route was stopped during the wait.

        Raises:
            LinkError: the other bridge did not end within `RouteOptions.reach`.
        """
        reach, lifecycle = self.options.reach, self._context.lifecycle
        is_logged = False
        while not lease.acquire():
            lifecycle.advance(Event.WAIT)
            if not is_logged:
                is_logged = True
                self.log("route-stands-by", at=str(self.source), state=str(self.options.state))
            lifecycle.update_duration()
            self._ending.end_if_late()
            if reach is not None and self.statistics.seconds >= reach and not lifecycle.is_ending:
                text = f"{self.options.state}: another bridge runs this route since {reach:g} s"
                raise LinkError(text, permanent=True)
            if await lifecycle.wait_for_stop(self.options.waits.check_interval):
                self._ending.end_uncounted(State.STANDBY.value)
                lifecycle.advance(Event.END)
                return False
        return True

    async def _declare_queue(self) -> bool:
        """Declare the source's queue at the target. Return False if the route was stopped first."""
        from amqp10msg.net.bridge.topology import declare_for  # noqa: PLC0415  (rarely used)

        self._context.lifecycle.advance(Event.DECLARE)
        declaring = asyncio.ensure_future(
            declare_for(self.source, self.target, self.options, self.log)
        )
        try:
            while not (declaring.done() or self._context.lifecycle.is_ending):
                self._context.lifecycle.update_duration()
                self._ending.end_if_late()
                await asyncio.wait([declaring], timeout=self.options.waits.check_interval)
            if declaring.done():
                declaring.result()
                return True
            self._ending.end_uncounted("it ended while it declared the queue")
            self._context.lifecycle.advance(Event.END)
            return False
        finally:
            declaring.cancel()

    async def _run(self) -> None:
        """Run the route. The caller holds its lease if it has a state file."""
        try:
            if self.options.declare and not await self._declare_queue():
                return
            records = Records(self.name, self.source, self.target, self.options)
        except (OSError, ValueError) as error:
            self._report_failure(error)
            raise
        self._coupling = Coupling(self._context, self._ending, records)
        await self._coupling.run()
