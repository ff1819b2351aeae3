"""SCRAM-SHA-256 (RFC 5802 and 7677) at the server's end, by the package scramp."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from amqp10msg.net.transport import SaslError

#: Bytes of a salt.
_SALT = 16
#: Names of which the keys are kept, known or not.
_MOST_NAMES = 10_000


def is_installed() -> bool:
    """Whether the package is there; it is imported when a peer first needs it."""
    return find_spec("scramp") is not None


class Scram:
    """What SCRAM needs of the passwords of a server's users.

    A name that is not known gets a salt as well, always the same, and costs as much, so that
    neither tells which names there are.
    """

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self._secret = secrets.token_bytes(32)
        self._keys: dict[str, Any] = {}

    def begin(self) -> ScramExchange:
        """Begin an exchange with a peer."""
        return ScramExchange(self)

    def keys_of(self, name: str) -> Any:
        """Return the salt, both keys and the number of iterations, as scramp takes them."""
        from scramp import ScramException, ScramMechanism  # noqa: PLC0415  (slow to import)

        found = self._keys.get(name)
        if found is None:
            mechanism = ScramMechanism("SCRAM-SHA-256")
            salt = hmac.digest(self._secret, name.encode(), "sha256")[:_SALT]
            # What nobody can know stands for the password of a name that is not known, or of one
            # whose password SCRAM does not allow.
            nobodys = secrets.token_hex()
            try:
                found = mechanism.make_auth_info(self._users.get(name, nobodys), salt=salt)
            except ScramException:
                found = mechanism.make_auth_info(nobodys, salt=salt)
            if len(self._keys) >= _MOST_NAMES:
                del self._keys[next(iter(self._keys))]
            self._keys[name] = found
        return found


class ScramExchange:
    """The messages of one authentication."""

    def __init__(self, known: Scram) -> None:
        from scramp import ScramMechanism  # noqa: PLC0415  (slow to import)

        self.user: str | None = None
        self.done = False
        self._known = known
        self._name = ""
        self._begun = False
        self._server = ScramMechanism("SCRAM-SHA-256").make_server(self._keys_of)

    def _keys_of(self, name: str) -> Any:
        self._name = name
        return self._known.keys_of(name)

    def step(self, response: bytes) -> bytes:
        """Take a message of the peer, and return the next one of the server."""
        from scramp import ScramException  # noqa: PLC0415  (slow to import)

        try:
            text = response.decode()
            if not self._begun:
                self._begun = True
                self._server.set_client_first(text)
                first: str = self._server.get_server_first()
                return first.encode()
            self._server.set_client_final(text)
            final: str = self._server.get_server_final()
        except (ScramException, UnicodeError) as error:
            raise SaslError(f"SCRAM-SHA-256: {error}", refused=True) from None
        self.user, self.done = self._name, True
        return final.encode()
