"""The entry point of ``python -m amqp10msg`` and of the command ``amqp10msg``."""

import sys

#: Matches the password in a URL, unless it is an environment variable such as ``${NAME}``.
_CREDENTIALS = r"(://[^:/?#]*:)(?!\$\{\w+\}@)[^/?#]*@"
#: The commands that handle SIGTERM, SIGINT and SIGHUP.
_HANDLE_SIGNALS = {"bridge"}


def _prepare_process() -> None:
    """Hide passwords in the process list, and block signals for the bridge, before slow imports.

    The bridge unblocks the signals when it has set its handlers. Until then, a signal would kill
    it.
    """
    if _HANDLE_SIGNALS.intersection(sys.argv[1:2]):
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


def _print_version() -> bool:
    """Print the version, without importing click, if --version is the only argument.

    Returns whether the version was printed.
    """
    if sys.argv[1:] != ["--version"]:
        return False
    from amqp10msg.app.version import version

    try:
        sys.stdout.write(f"{version()}\n")
        sys.stdout.flush()
    except (OSError, AttributeError):  # stdout is None if it is closed
        return False  # click reports the error
    return True


def main() -> int:
    """Run the command line and return its exit status.

    Ctrl-C prints one line and returns 130, even while modules are still being imported.
    """
    try:
        _prepare_process()
        if _print_version():
            return 0
        # Imported here, so that Ctrl-C during the import is caught.
        from amqp10msg.app.cli import main as run

        # If click is installed, `run` ends the process; else it returns a status.
        return int(run() or 0)
    except KeyboardInterrupt:
        sys.stderr.write("amqp10msg: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
