"""Cases in files: JSON lines, a CBOR sequence (RFC 8742), or Parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from amqp10msg.interop.corpus.case import Case, CorpusError
from amqp10msg.interop.corpus.tables import read_parquet, write_parquet

#: Suffixes of files that hold a CBOR sequence; every other file holds JSON lines.
_CBOR = (".cbor", ".cborseq")
_PARQUET = ".parquet"
# The ids of the messages for demonstrations.
_DEMO = (
    # What a broker makes of one AMQP 0-9-1 message, version by version.
    "rabbitmq-3.10.8-classic-from-091-all-but-user-id",
    "rabbitmq-4.0.5-quorum-from-091-all-but-user-id",
    "rabbitmq-4.3.6-stream-from-091-all-but-user-id",
    "rabbitmq-4.3.6-quorum-from-091-cc",
    # Every section, with the three kinds of body.
    "rabbitmq-4.3.6-quorum-relay-full-data",
    "rabbitmq-4.3.6-quorum-relay-full-seq",
    "proton-0.40.0-again-full-value",
    # The type system at work.
    "proton-0.40.0-built-all",
    "rhea-3.0.5-built-p-all",
    "proton-0.40.0-built-body-described",
    "rabbitmq-4.3.6-quorum-relay-ap-order",
    # Violations of the specification: a string as user-id, string keys in annotations.
    "rabbitmq-3.10.8-classic-from-091-all-but-delivery-mode",
    "rabbitmq-3.10.8-stream-from-091-only-content-type",
    "rhea-3.0.5-built-footer",
)


def load(path: str | Path | None = None) -> list[Case]:
    """Read the cases of a file, or of all files of a folder.

    Args:
        path: a file of JSON lines (``.jsonl``), a CBOR sequence (``.cborseq``, ``.cbor``) or
            Parquet (``.parquet``), or a folder of files of the first two, which are read in the
            order of their names. None for the corpus that comes with the library.

    Raises:
        CorpusError: a line or an item is not a case, an id is repeated, or a folder is empty.
        ImportError: the file is a CBOR sequence or Parquet, and cbor2 or pyarrow is not installed.
        OSError: the file cannot be read.
    """
    source: Traversable = resources.files("amqp10msg.interop.corpus") / "data"
    if path is not None:
        source = Path(path)
    files = [source]
    if source.is_dir():
        files = sorted(
            (file for file in source.iterdir() if file.name.endswith((".jsonl", *_CBOR))),
            key=lambda file: file.name,
        )
        if not files:
            raise CorpusError("the folder has no .jsonl and no .cborseq", str(source))
    cases: dict[str, Case] = {}
    for file in files:
        read = _json_lines
        if file.name.endswith((*_CBOR, _PARQUET)):
            read = _cbor_items if file.name.endswith(_CBOR) else _rows
        for place, item in read(file):
            try:
                case = Case.from_object(item)
            except CorpusError as error:
                raise CorpusError(str(error), place) from None
            if case.id in cases:
                raise CorpusError(f"{case.id} is repeated", place)
            cases[case.id] = case
    return list(cases.values())


@cache
def _by_id() -> dict[str, Case]:
    with resources.as_file(
        resources.files("amqp10msg.interop.corpus") / "data" / "recorded.jsonl"
    ) as file:
        return {case.id: case for case in load(file)}


def demo_messages() -> list[Case]:
    """Return a selection of the messages that were recorded from RabbitMQ, proton and rhea.

    The last three violate the specification: `Message.decode` takes them with ``strict=False``.
    """
    return [_by_id()[name] for name in _DEMO]


def dump(cases: Iterable[Case], path: str | Path) -> None:
    """Write cases to a file: JSON lines, or a CBOR sequence or Parquet if its suffix says so.

    Raises:
        ImportError: cbor2 or pyarrow is needed and not installed.
        OSError: the file cannot be written.
    """
    path = Path(path)
    if path.suffix == _PARQUET:
        write_parquet(cases, path)
        return
    if path.suffix in _CBOR:
        cbor2 = _cbor2()
        octets = b"".join(cbor2.dumps(case.to_object(binary=True)) for case in cases)
    else:
        octets = "".join(
            json.dumps(case.to_object(), ensure_ascii=False) + "\n" for case in cases
        ).encode()
    path.write_bytes(octets)


def _json_lines(file: Traversable) -> Iterator[tuple[str, Any]]:
    # Not splitlines(): that splits at U+2028 and others too, which JSON leaves alone in strings.
    for number, line in enumerate(file.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        place = f"{file.name}, line {number}"
        try:
            yield place, json.loads(line)
        except ValueError as error:
            raise CorpusError(f"not JSON: {error}", place) from None


def _rows(file: Traversable) -> Iterator[tuple[str, Any]]:
    with resources.as_file(file) as path:
        for number, made in enumerate(read_parquet(path), start=1):
            yield f"{file.name}, row {number}", made


def _cbor_items(file: Traversable) -> Iterator[tuple[str, Any]]:
    cbor2 = _cbor2()
    # cbor2 reads ahead, so the stream does not show whether items are left. A last item that cannot
    # be a case does: in a truncated file it becomes part of the item before, or is never reached.
    decoder = cbor2.CBORDecoder(io.BytesIO(file.read_bytes() + cbor2.dumps(cbor2.undefined)))
    number = 0
    while True:
        number += 1
        place = f"{file.name}, item {number}"
        try:
            item = decoder.decode()
        except (cbor2.CBORDecodeError, EOFError) as error:
            raise CorpusError(f"not CBOR, or truncated: {error}", place) from None
        if item is cbor2.undefined:
            return
        yield place, item


def _cbor2() -> Any:
    try:
        import cbor2  # noqa: PLC0415 - an extra
    except ImportError:
        raise ImportError(
            "a CBOR sequence needs cbor2: pip install 'amqp10msg[cbor]', or use .jsonl"
        ) from None
    return cbor2
