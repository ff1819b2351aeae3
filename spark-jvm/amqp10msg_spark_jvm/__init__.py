"""The jars that have Spark decode usual messages itself; `amqp10msg.spark` uses one of them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["jar"]


def jar(spark: str | None = None) -> Path | None:
    """Return the jar, for ``spark.jars``.

    Args:
        spark: the version of Spark, such as ``4.1.0``; that of the PySpark here where None.

    Returns:
        None where there is no jar for it, and where this is the source, which holds none.
    """
    if spark is None:
        try:
            spark = version("pyspark")
        except PackageNotFoundError:  # the client of Connect alone
            return None
    line = ".".join(spark.split(".")[:2])
    return next(iter(Path(__file__).parent.glob(f"*_{line}-*.jar")), None)
