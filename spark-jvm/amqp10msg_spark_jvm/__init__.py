"""The jar that has Spark decode usual messages itself; `amqp10msg.spark` uses it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["jar"]


def jar() -> Path | None:
    """Return the jar, for ``spark.jars``; None where this is the source, which holds no jar."""
    return next(iter(sorted(Path(__file__).parent.glob("*.jar"))), None)
