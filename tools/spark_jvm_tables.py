"""The declarations as tables in Scala: format codes, descriptors, fields, types, columns.

`build_spark_jvm` compiles them with the sources in ``spark-jvm/scala``.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyspark
from pyspark.sql.pandas.types import from_arrow_schema

from amqp10msg import __version__
from amqp10msg.columns import MAPS, SCHEMA, VALUE, pick_of, schema_of
from amqp10msg.columns._cells import FIRST_MS, LAST_MS
from amqp10msg.columns._schema import COMPOSITES
from amqp10msg.columns._variant import MOST
from amqp10msg.composite import Field, rows
from amqp10msg.sections import KINDS
from amqp10msg.wire.kernel.codes import FOLLOWERS
from amqp10msg.wire.limits import DEFAULT_LIMITS
from amqp10msg.wire.primitives import FORMAT_CODES

# Columns that Spark has already, or that only Python fills.
_NOT_DECODED = {"message_format", "error_code", "error_clause", "error_offset"}
_DERIVED = ("body_text", "body_value")
_SQL_TYPES = ("string", "bigint", "double", "boolean", "timestamp", "binary")


def tables() -> str:
    """Return the source of the object ``Tables``."""
    numbers = {
        "FIRST_CODE": KINDS[0].code,
        "PROPERTIES": _index("properties"),
        "APPLICATION_PROPERTIES": _index("application-properties"),
        "DATA": _index("data"),
        "AMQP_VALUE": _index("amqp-value"),
        "MAX_ITEMS": DEFAULT_LIMITS.items,
        "MAX_ZERO_WIDTH": DEFAULT_LIMITS.zero_width,
        "MOST_OF_VARIANT": MOST,
        "FIRST_MS": f"{FIRST_MS}L",
        "LAST_MS": f"{LAST_MS}L",
        "MEMBERS": len(VALUE),
        **{field.name.upper(): at for at, field in enumerate(VALUE)},
    }
    following = [sum(bool(row[k.code]) << i for i, k in enumerate(KINDS)) for row in FOLLOWERS]
    codes = [f'new FormatCode({c.code}, {c.width}, "{c.type}")' for c in FORMAT_CODES.values()]
    sections = [f'new Section("{k.name}", "{k.attribute}", "{k.source}")' for k in KINDS]
    columns = {name: _type(name) for name in SCHEMA.names if name not in _NOT_DECODED}
    columns |= {name: _type(name) for name in _DERIVED}
    picks = {"": _type(f"{MAPS[0]}.key")}
    picks |= {kind: _type(f"{MAPS[0]}.key {kind}") for kind in _SQL_TYPES}
    lines = [
        "// Generated from the declarations of amqp10msg: change those.",
        "package amqp10msg.spark.jvm",
        "",
        "private[jvm] object Tables {",
        f'  final val VERSION = "{__version__}"',
        f'  final val SPARK = "{spark_line()}"',
        *(f"  final val {name} = {number}" for name, number in numbers.items()),
        f"  val FOLLOWING: Array[Int] = {_array(map(str, following))}",
        f"  val FORMAT_CODES: Array[FormatCode] = {_array(codes)}",
        f"  val SECTIONS: Array[Section] = {_array(sections)}",
        f"  val FIELDS: Array[Array[Field]] = {_array(_fields(k.attribute) for k in KINDS)}",
        f"  val COLUMNS: Map[String, String] = {_map(columns)}",
        f"  val PICKS: Map[String, String] = {_map(picks)}",
        "}",
        "",
    ]
    return "\n".join(lines)


def spark_line() -> str:
    """Return the line of Spark that is compiled for, such as ``4.3``."""
    return ".".join(pyspark.__version__.split(".")[:2])


def _index(name: str) -> int:
    return next(at for at, kind in enumerate(KINDS) if kind.name == name)


def _array(items: Iterable[str]) -> str:
    return "Array(\n" + "".join(f"    {item},\n" for item in items).removesuffix(",\n") + "\n  )"


def _map(types: dict[str, str]) -> str:
    items = (f'"{name}" -> """{text}"""' for name, text in types.items())
    return "Map(\n    " + ",\n    ".join(items) + "\n  )"


def _fields(attribute: str) -> str:
    if attribute not in COMPOSITES:
        return "null"
    return _array(_field(field) for field in rows(COMPOSITES[attribute])).replace("\n", "\n    ")


def _field(field: Field) -> str:
    kind = field.requires if field.type == "*" else field.type
    default = "null"
    if field.default is not None:
        default = f"{int(field.default)}L"
    return f'new Field("{field.name}", "{kind}", {default})'


def _type(column: str) -> str:
    """Return Spark's type of a column, as JSON."""
    field = schema_of([column]).field(0)
    pick = pick_of(column, MAPS)
    schema = pa.schema([pa.field("x" if pick else column, field.type)])
    return str(from_arrow_schema(schema).fields[0].dataType.json())
