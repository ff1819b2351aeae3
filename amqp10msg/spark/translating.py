"""Messages of AMQP 0-9-1 as 1.0 messages and back, a DataFrame at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType

from amqp10msg.jobs.translating import REPORT, Translator
from amqp10msg.spark._frames import BINARY, kept_names, mapped, required
from amqp10msg.translate import Circumstances


def translate(
    df: DataFrame,
    to: Literal["amqp10", "basic"],
    profile: str = "lossless",
    *,
    column: str = "wire",
    strict: bool = False,
    circumstances: Circumstances | None = None,
    keep: Sequence[str] | None = None,
) -> DataFrame:
    """Translate the messages of a DataFrame between AMQP 0-9-1 and 1.0.

    A message of 0-9-1 has four columns: ``content_header``, the payload of its content header
    frame; ``payload``, the body; ``exchange`` and ``routing_key``, which may be absent on input.

    Args:
        df: a DataFrame with messages: a column of encoded 1.0 messages, or the columns above.
        to: the protocol to translate to: ``amqp10``, or ``basic`` for class basic of 0-9-1.
        profile: a name of `amqp10msg.translate.PROFILES`.
        column: the column of the 1.0 messages: read for ``basic``, new for ``amqp10``.
        strict: refuse messages of which something would be lost for good.
        circumstances: what a broker's result depends on besides the message, the same for all.
        keep: the columns of `df` to carry through; all but those read where None.

    Returns:
        A DataFrame with the kept columns and the translated messages; with ``losses``, what the
        translation did not carry over, values as JSON; and with ``error_code``, ``error_offset``
        and ``error_text`` where a message was refused or cannot be read.

    Raises:
        ValueError: there is no such profile; a column is not there, is of another type, or is
            ambiguous.
    """
    translator = Translator(to, profile, strict, circumstances)
    if to == "basic":
        required(df, column, BINARY)
        read, new = [column], translator.schema
    else:
        required(df, "content_header", BINARY)
        required(df, "payload", BINARY)
        optional = [name for name in ("exchange", "routing_key") if name in df.columns]
        for name in optional:
            required(df, name, StringType())
        read = ["content_header", "payload", *optional]
        new = pa.schema([(column, pa.binary()), *REPORT])
    names = kept_names(df, keep, read, new.names)
    # The message of 1.0 may be in a column of any name.
    sources = ["wire"] if to == "basic" else read

    def work(batch: pa.RecordBatch) -> list[pa.Array]:
        given = (batch.column(name) for name in read)
        return list(translator.run(dict(zip(sources, given, strict=True))).values())

    return mapped(df, work, new, keep=names, read=read)
