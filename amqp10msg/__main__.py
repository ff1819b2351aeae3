"""``python -m amqp10msg``, and what the command ``amqp10msg`` calls."""

import sys


def main() -> int:
    """Run the command line; Ctrl-C is one line also where it comes while all this is imported."""
    try:
        from amqp10msg.cli import main as run  # noqa: PLC0415  (so that Ctrl-C finds this)

        run()
    except KeyboardInterrupt:
        sys.stderr.write("amqp10msg: interrupted\n")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
