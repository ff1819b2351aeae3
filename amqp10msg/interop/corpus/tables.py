"""Cases as a table of Parquet: a column an attribute, what is typed as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from amqp10msg.interop.corpus.case import Case

# What JSON says best, whatever it is.
_JSON = ("typed", "limits", "given", "answer")


def write_parquet(cases: Iterable[Case], path: Path) -> None:
    """Write cases as one table; the same cases give the same bytes with the same pyarrow.

    Raises:
        ImportError: pyarrow is not installed.
        OSError: the file cannot be written.
    """
    pa, pq = _pyarrow()
    text, octets = pa.string(), pa.binary()
    violation = pa.struct([("rule", text), ("severity", text), ("offset", pa.int32())])
    schema = pa.schema(
        [
            pa.field("id", text, nullable=False),
            pa.field("kind", text, nullable=False),
            pa.field("data", octets, nullable=False),
            pa.field("typed", text),
            pa.field("compact", octets),
            pa.field("error", pa.struct([("rule", text), ("offset", pa.int32())])),
            pa.field("violations", pa.list_(violation)),
            pa.field("profile", text, nullable=False),
            *(pa.field(name, text) for name in ("limits", "given", "answer")),
            *(pa.field(name, text, nullable=False) for name in ("clause", "origin", "licence")),
            pa.field("note", text),
        ]
    )
    rows = [_row(case) for case in cases]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, compression="zstd")


def read_parquet(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of cases, as `Case.from_object` takes them.

    Raises:
        ImportError: pyarrow is not installed.
        OSError: the file cannot be read, or is not Parquet.
    """
    _, pq = _pyarrow()
    for row in pq.read_table(path).to_pylist():
        made = {name: value for name, value in row.items() if value is not None}
        for name in _JSON:
            if name in made:
                made[name] = json.loads(made[name])
        if "violations" in made:
            made["violations"] = [list(one.values()) for one in made["violations"]]
        yield made


def _row(case: Case) -> dict[str, Any]:
    made = case.to_object(binary=True)
    for name in _JSON:
        if name in made:
            made[name] = json.dumps(made[name], ensure_ascii=False)
    if "violations" in made:
        made["violations"] = [
            {"rule": rule, "severity": level, "offset": offset}
            for rule, level, offset in made["violations"]
        ]
    return {"profile": case.profile, **made}


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa  # noqa: PLC0415  (an extra)
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise ImportError(
            "Parquet needs pyarrow: pip install 'amqp10msg[arrow]', or use .jsonl"
        ) from None
    return pa, pq
