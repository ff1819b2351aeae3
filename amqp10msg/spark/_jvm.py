"""Whether a session decodes usual messages itself, and what it has to be told for that.

The artefact ``amqp10msg-spark-jvm`` brings an extension of Spark. It knows the column of messages
of a ``mapInArrow`` by its metadata, and a function of SQL by that of the first field of its struct;
a session without it takes no notice of the former, and is not given the latter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Literal
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from amqp10msg import __version__
from amqp10msg.columns import MAPS, MapsAs, pick_of, schema_of

#: What decodes usual messages; odd ones are decoded in Python in any case.
Engine = Literal["python", "jvm"]

_PACKAGE = "amqp10msg_spark_jvm"
#: What makes the artefact known to Spark.
EXTENSION = "amqp10msg.spark.jvm.Extensions"
_EXTENSIONS = "spark.sql.extensions"
_JARS = "spark.jars"
# As `Extensions.scala` has them.
_VERSION = "amqp10_jvm_version"
_MARK = "amqp10msg.decode"
_FORMAT = "amqp10msg.message_format"
_found: WeakKeyDictionary[SparkSession, str | None] = WeakKeyDictionary()


def settings(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings that bring the artefact into a new session, where it is installed.

    None of them where `config` brings it already.
    """
    given = str(config.get(_EXTENSIONS) or "")
    if EXTENSION in given.split(",") or find_spec(_PACKAGE) is None:
        return {}
    from amqp10msg_spark_jvm import jar  # noqa: PLC0415  (an artefact of its own)

    path = jar()
    if path is None:
        return {}
    added = {_JARS: str(path), _EXTENSIONS: EXTENSION}
    return {name: ",".join(filter(None, (config.get(name), one))) for name, one in added.items()}


def is_chosen(session: SparkSession, engine: Engine | None, profile: str | None) -> bool:
    """Whether the JVM decodes usual messages: where it can, unless an engine was asked for.

    Raises:
        ValueError: the JVM was asked for and cannot; there is no such engine.
    """
    if engine not in {None, "python", "jvm"}:
        raise ValueError(f"engine is {engine!r}, and must be python or jvm")
    if engine == "python":
        return False
    reason = _why_not(session, profile)
    if reason is not None and engine == "jvm":
        raise ValueError(f"engine='jvm' cannot be used: {reason}")
    return reason is None


def _why_not(session: SparkSession, profile: str | None) -> str | None:
    if profile is not None:
        return "validate is done in Python alone; leave one of them out"
    if session not in _found:
        _found[session] = _version_in(session)
    version = _found[session]
    if version is None:
        return (
            "the session lacks its extension: install amqp10msg-spark-jvm before the session "
            f"starts, or start Spark, or the server of Connect, with its jar in {_JARS} and "
            f"{_EXTENSIONS}={EXTENSION}"
        )
    if version != __version__:
        return f"its jar is of amqp10msg {version}, and this is {__version__}: install the same"
    return None


def _version_in(session: SparkSession) -> str | None:
    names = session.conf.get(_EXTENSIONS, "") or ""
    # Spark goes on without an extension that it does not find.
    if EXTENSION not in names.split(",") or not session.catalog.functionExists(_VERSION):
        return None
    return str(session.sql(f"select {_VERSION}()").collect()[0][0])


def marks(
    column: str, message_format: str | None, wanted: Sequence[str], maps: MapsAs
) -> dict[str, dict[str, str]]:
    """Return the metadata of the columns that are read, by their names."""
    made: dict[str, dict[str, str]] = (
        {} if message_format is None else {message_format: {_FORMAT: ""}}
    )
    return {**made, column: mark(wanted, maps)}


def mark(wanted: Sequence[str], maps: MapsAs) -> dict[str, str]:
    """Return the metadata by which the extension knows which columns of messages are asked for."""
    return {_MARK: json.dumps([_told(name, maps) for name in wanted])}


def _told(name: str, maps: MapsAs) -> tuple[str, str, str]:
    """Return the section, the name or key, and the type, as `Column.scala` reads them."""
    pick = pick_of(name, MAPS)
    if pick is not None:
        return pick.section, pick.key, pick.type or ""
    (name,) = schema_of([name]).names  # of another spelling, such as properties.subject
    return (
        "",
        name,
        "variant" if name == "body_value" or (name in MAPS and maps == "variant") else "",
    )
