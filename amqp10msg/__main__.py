"""``python -m amqp10msg``, and what the command ``amqp10msg`` calls."""

import contextlib
import re
import signal
import sys

#: A password in a URL, after the user, that is not a variable of the environment.
_PASSWORD = re.compile(r"(://[^:/?#]*:)(?!\$\{\w+\}@)[^/?#]*@")
#: The commands that SIGTERM and SIGINT end in order, once they work.
_ORDERLY = {"bridge"}


def _begin() -> None:
    """Take passwords out of the list of processes, and hold signals back, before all is imported.

    The signals come when the bridge can end in order, or after its imports.
    """
    hidden = [_PASSWORD.sub(r"\1…@", argument) for argument in sys.argv[1:]]
    if _ORDERLY.intersection(sys.argv[1:2]) and hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    if hidden != sys.argv[1:]:
        with contextlib.suppress(ModuleNotFoundError):
            import setproctitle  # noqa: PLC0415  (an extra)

            setproctitle.setproctitle(" ".join(["amqp10msg", *hidden]))


def main() -> int:
    """Run the command line; Ctrl-C is one line also where it comes while all this is imported."""
    try:
        _begin()
        from amqp10msg.app.cli import main as run  # noqa: PLC0415  (so that Ctrl-C finds this)

        run()
    except KeyboardInterrupt:
        sys.stderr.write("amqp10msg: interrupted\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
