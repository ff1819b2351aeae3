"""Opens links to sources and targets, at the first reachable address of an endpoint."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import attrs

from amqp10msg.net.ends import files
from amqp10msg.net.ends.terms import (
    LinkError,
    OnAddressSkipped,
    SourceLink,
    SourceRequest,
    TargetLink,
    TargetRequest,
)
from amqp10msg.net.ends.urls import Endpoint

_T = TypeVar("_T")


async def open_source(request: SourceRequest) -> SourceLink:
    """Open a source link. It passes its deliveries to `request.receive`."""
    link: SourceLink = await open_first_reachable(
        _link_module(request.endpoint).open_source, request
    )
    return link


async def open_target(request: TargetRequest) -> TargetLink:
    """Open a target link. It passes outcomes to `request.on_outcomes`."""
    link: TargetLink = await open_first_reachable(
        _link_module(request.endpoint).open_target, request
    )
    return link


def _link_module(endpoint: Endpoint) -> Any:
    """Return the module with `open_source` and `open_target` for the endpoint."""
    if endpoint.parquet is not None:
        from amqp10msg.net.ends import parquet  # noqa: PLC0415  (an extra)

        return parquet
    if endpoint.file is not None:
        return files
    if endpoint.protocol == "0-9-1":
        from amqp10msg.net.ends import basic  # noqa: PLC0415  (an extra)

        return basic
    from amqp10msg.net.ends import amqp10  # noqa: PLC0415  (an extra)

    return amqp10


def warn_unverified_tls(endpoints: Iterable[Endpoint | None], log: Callable[..., None]) -> None:
    """Log a warning for each address whose TLS certificate is not verified."""
    for candidate in (
        candidate for endpoint in endpoints if endpoint is not None for candidate in endpoint.places
    ):
        if candidate.tls and not candidate.verify:
            reason = "verify=verify_none: an attacker in between can read and change all messages"
            log("certificate-not-verified", logging.WARNING, at=str(candidate), why=reason)


async def open_first_reachable(open_: Callable[[Any], Awaitable[Any]], request: Any) -> Any:
    """Call `open_` with the request for each address of its endpoint, until one can be opened.

    Passwords are removed from errors, also from the error that `request.on_lost` receives later.
    """

    def on_lost(error: LinkError) -> None:
        request.on_lost(_without_passwords(error, request.endpoint))

    async def open_candidate(candidate: Endpoint) -> Any:
        return await open_(attrs.evolve(request, endpoint=candidate, on_lost=on_lost))

    return await first_reachable(request.endpoint, open_candidate, request.on_address_skipped)


async def first_reachable(
    endpoint: Endpoint,
    attempt: Callable[[Endpoint], Awaitable[_T]],
    on_address_skipped: OnAddressSkipped | None = None,
) -> _T:
    """Return the result of `attempt` for the first address of an endpoint for which it succeeds.

    Then calls `on_address_skipped` with each earlier address and its error.

    Raises:
        LinkError: `attempt` failed for all addresses. The error has the reason of each address. It
            is permanent if the errors of all addresses are permanent.
    """
    errors: list[LinkError] = []
    for candidate in endpoint.places:
        try:
            result = await attempt(attrs.evolve(candidate, others=()))
        except LinkError as error:
            errors.append(_without_passwords(error, endpoint))
            continue
        if on_address_skipped is not None:
            for skipped, error_of_skipped in zip(endpoint.places, errors, strict=False):
                on_address_skipped(skipped, error_of_skipped)
        return result
    raise _combine_errors(endpoint, errors) from None


def connect_first_reachable(endpoint: Endpoint, connect: Callable[[Endpoint], _T]) -> _T:
    """Return the result of `connect` for the first address for which it succeeds; blocks.

    Raises:
        LinkError: all addresses failed; see `first_reachable`.
    """
    errors: list[LinkError] = []
    for candidate in endpoint.places:
        try:
            return connect(attrs.evolve(candidate, others=()))
        except LinkError as error:
            errors.append(_without_passwords(error, endpoint))
    raise _combine_errors(endpoint, errors) from None


def _combine_errors(endpoint: Endpoint, errors: list[LinkError]) -> LinkError:
    """Return one error for the errors of all addresses of an endpoint."""
    if len(errors) == 1:
        return errors[0]
    reasons = "; ".join(
        f"{candidate.host}:{candidate.port}: {error}"
        for candidate, error in zip(endpoint.places, errors, strict=True)
    )
    return LinkError(
        reasons,
        sent_by_peer=any(error.sent_by_peer for error in errors),
        permanent=all(error.permanent for error in errors),
        failed=any(error.failed for error in errors),
        missing=all(error.missing for error in errors),
    )


def _without_passwords(error: LinkError, endpoint: Endpoint) -> LinkError:
    """Return `error` with the endpoint's passwords removed."""
    for candidate in endpoint.places:
        error = error.without(candidate.password)
    return error
