"""Connecting to a peer, by TLS where its URL says so, within the time that it has."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from amqp10msg.net.bridge.terms import LinkError
from amqp10msg.net.bridge.urls import Endpoint


async def dial(made: Any, at: Endpoint, ready: Callable[[], Awaitable[Any]]) -> None:
    """Connect, and wait until the peer has agreed.

    Args:
        made: the protocol of asyncio; its ``abort`` is called where it did not succeed.
        at: where.
        ready: waits until the peer has agreed.

    Raises:
        LinkError: it did not succeed; for good where the certificate is not to be trusted, TLS
            cannot be agreed on, or a file of ours cannot be read.
    """
    try:
        context = at.tls_context()
    except (OSError, ssl.SSLError) as error:
        raise LinkError(str(error), permanent=True) from None
    try:
        async with asyncio.timeout(at.timeout):
            name = (at.server_name or at.host) if at.tls else None
            await asyncio.get_running_loop().create_connection(
                lambda: made, at.host, at.port, ssl=context, server_hostname=name
            )
            await ready()
            made.is_open = True
    except asyncio.CancelledError:
        made.abort()
        raise
    except TimeoutError:
        made.abort()
        raise LinkError(f"no answer within {at.timeout:g} s") from None
    except LinkError:
        made.abort()
        raise
    except ssl.SSLCertVerificationError as error:
        made.abort()
        text = (
            f"its certificate is not to be trusted: {error.verify_message}; cacertfile= names what "
            "is, server_name_indication= the name that it is for"
        )
        raise LinkError(text, permanent=True) from None
    except ssl.SSLError as error:
        made.abort()
        hint = "; it speaks no TLS" if error.reason == "WRONG_VERSION_NUMBER" else ""
        cut = isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError))
        raise LinkError(f"TLS: {error.reason or error}{hint}", permanent=not cut) from None
    except OSError as error:
        made.abort()
        raise LinkError(error.strerror or str(error)) from None


def drop(stream: asyncio.Transport | None) -> None:
    """Close a connection without waiting for the peer, as TLS does, or one that does not read."""
    if stream is None:
        return
    if stream.get_write_buffer_size() or stream.get_extra_info("ssl_object") is not None:
        stream.abort()
    else:
        stream.close()
