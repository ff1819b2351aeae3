"""``python -m amqp10msg``, and what the command ``amqp10msg`` calls."""

import sys

#: A password in a URL, after the user, that is not a variable of the environment.
_CREDENTIALS = r"(://[^:/?#]*:)(?!\$\{\w+\}@)[^/?#]*@"
#: The commands that handle SIGTERM, SIGINT and SIGHUP themselves, once they are imported.
_ORDERLY = {"bridge"}


def _begin() -> None:
    """Take passwords out of the list of processes, and hold signals back, before all is imported.

    The signals are delivered when the bridge has its handlers. SIGHUP would end it otherwise.
    """
    if _ORDERLY.intersection(sys.argv[1:2]):
        import signal

        if hasattr(signal, "pthread_sigmask"):
            numbers = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
            signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    if not any("://" in argument for argument in sys.argv[1:]):
        return
    import re

    hidden = [re.sub(_CREDENTIALS, r"\1…@", argument) for argument in sys.argv[1:]]
    if hidden != sys.argv[1:]:
        try:
            import setproctitle  # (an extra)
        except ModuleNotFoundError:
            return
        setproctitle.setproctitle(" ".join(["amqp10msg", *hidden]))


def _said_version() -> bool:
    """Say the version where nothing else is asked for; that takes no command line of click."""
    if sys.argv[1:] != ["--version"]:
        return False
    from amqp10msg.app.version import version

    try:
        sys.stdout.write(f"{version()}\n")
        sys.stdout.flush()
    except (OSError, AttributeError):  # it is None where it is closed
        return False  # the commands say what is wrong with it
    return True


def main() -> int:
    """Run the command line and return its exit status.

    Ctrl-C prints one line and returns 130, even while modules are still being imported.
    """
    try:
        _begin()
        if _said_version():
            return 0
        from amqp10msg.app.cli import main as run  # here, so that Ctrl-C during it is caught

        # Without click this returns a status; with it, `run` ends the process.
        return int(run() or 0)
    except KeyboardInterrupt:
        sys.stderr.write("amqp10msg: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
