"""Who guesses passwords is slowed down."""

from __future__ import annotations

# Seconds: the first wait after a refusal, which doubles with each, the longest, and after how long
# without one all is forgotten.
_FIRST_WAIT, _LONGEST_WAIT, _FORGOTTEN = 0.05, 2.0, 60.0
_MOST_HOSTS = 10_000


class Guesses:
    """Slows down who guesses passwords: connections of a host that was refused wait their turn.

    Right and wrong passwords wait alike, one connection after the other: more of them at once guess
    no faster.
    """

    def __init__(self) -> None:
        # By host: how often it was refused, when last, and until when its turns are taken.
        self._hosts: dict[str, tuple[int, float, float]] = {}

    def refused(self, host: str, now: float) -> None:
        """Note that a host gave a wrong password.

        Args:
            host: its address.
            now: seconds of a clock that does not go back.
        """
        times, _, until = self._hosts.pop(host, (0, now, now))
        self._hosts[host] = (times + 1, now, until)
        if len(self._hosts) > _MOST_HOSTS:
            del self._hosts[next(iter(self._hosts))]

    def wait(self, host: str, now: float) -> float:
        """Take the next turn of a host; return in how many seconds it comes."""
        times, last, until = self._hosts.get(host, (0, now, now))
        if not times:
            return 0.0
        if now - last > _FORGOTTEN:
            del self._hosts[host]
            return 0.0
        turn = max(now, until) + min(_FIRST_WAIT * 2.0 ** min(times - 1, 10), _LONGEST_WAIT)
        self._hosts[host] = (times, last, turn)
        return turn - now
