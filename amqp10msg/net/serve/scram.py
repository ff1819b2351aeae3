"""The server side of SCRAM-SHA-256 (RFC 5802, RFC 7677), with the package scramp."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from amqp10msg.net.transport import SaslError

#: Size of a salt in bytes.
_SALT_SIZE = 16
#: Maximum number of user names whose keys are cached, including unknown names.
_MAX_CACHED_NAMES = 10_000


def is_installed() -> bool:
    """Whether the package scramp is installed. It is imported only when a peer needs it."""
    return find_spec("scramp") is not None


class Scram:
    """Computes and caches the SCRAM keys of a server's users.

    An unknown user name also gets keys, with a constant salt and after the same time, so that a
    peer cannot find out which users exist.
    """

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self._secret = secrets.token_bytes(32)
        self._keys: dict[str, Any] = {}

    def begin(self) -> ScramExchange:
        """Begin the SCRAM authentication of a peer."""
        return ScramExchange(self)

    def keys_of(self, name: str) -> Any:
        """Return the salt, the stored key, the server key and the iteration count, for scramp."""
        from scramp import ScramException, ScramMechanism  # noqa: PLC0415  (slow to import)

        keys = self._keys.get(name)
        if keys is None:
            mechanism = ScramMechanism("SCRAM-SHA-256")
            salt = hmac.digest(self._secret, name.encode(), "sha256")[:_SALT_SIZE]
            # A random password makes authentication fail for unknown users, and for users whose
            # password SCRAM does not allow.
            unusable_password = secrets.token_hex()
            try:
                password = self._users.get(name, unusable_password)
                keys = mechanism.make_auth_info(password, salt=salt)
            except ScramException:
                keys = mechanism.make_auth_info(unusable_password, salt=salt)
            if len(self._keys) >= _MAX_CACHED_NAMES:
                del self._keys[next(iter(self._keys))]
            self._keys[name] = keys
        return keys


class ScramExchange:
    """The SCRAM authentication of one peer.

    Attributes:
        user: the name of the authenticated user; None until `done`.
        done: whether the authentication has succeeded.
    """

    def __init__(self, scram: Scram) -> None:
        from scramp import ScramMechanism  # noqa: PLC0415  (slow to import)

        self.user: str | None = None
        self.done = False
        self._scram = scram
        self._name = ""
        self._has_begun = False
        self._server = ScramMechanism("SCRAM-SHA-256").make_server(self._keys_of)

    def _keys_of(self, name: str) -> Any:
        """Return the keys of a user for scramp, and note the name of the user."""
        self._name = name
        return self._scram.keys_of(name)

    def step(self, response: bytes) -> bytes:
        """Return the server's SCRAM message in response to the peer's message.

        Raises:
            SaslError: the password is wrong, or the message is malformed.
        """
        from scramp import ScramException  # noqa: PLC0415  (slow to import)

        try:
            text = response.decode()
            if not self._has_begun:
                self._has_begun = True
                self._server.set_client_first(text)
                first: str = self._server.get_server_first()
                return first.encode()
            self._server.set_client_final(text)
            final: str = self._server.get_server_final()
        except (ScramException, UnicodeError) as error:
            raise SaslError(f"SCRAM-SHA-256: {error}", refused=True) from None
        self.user, self.done = self._name, True
        return final.encode()
