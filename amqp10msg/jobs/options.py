"""Options by name, as data sources have them: which there are, and numbers among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: How files of messages are read.
READING = ("rangeBytes", "maxSize", "protocol", "address", "since", "until", "selector")
#: How output is written.
WRITING = ("compression",)
_COMPRESSIONS = ("snappy", "zstd", "gzip", "lz4", "brotli", "none")


def refuse_unknown(options: Mapping[str, str], known: Iterable[str]) -> None:
    """Refuse options that nothing would read, whatever their case.

    Raises:
        ValueError: there is one.
    """
    names = {name.lower() for name in known}
    for name in options:
        if name.lower() not in names:
            raise ValueError(f"unknown option {name!r}: use {', '.join(known)}")


def number_of(options: Mapping[str, str], name: str, default: int, unit: str) -> int:
    """Return an option that is a number of at least 1.

    Raises:
        ValueError: it is none.
    """
    text = str(options.get(name, default))
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name} is {text!r}, and must be a number of {unit}, 1 or more")
    return int(text)


def compression_of(options: Mapping[str, str]) -> str:
    """Return the compression of Parquet files.

    Raises:
        ValueError: there is no such one.
    """
    name = options.get("compression", "snappy").lower()
    if name not in _COMPRESSIONS:
        raise ValueError(f"unknown compression {name!r}: use {', '.join(_COMPRESSIONS)}")
    return name


def shared(names: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return the names that are among the others, too; SQL does not tell cases apart."""
    known = {name.lower() for name in others}
    return [name for name in names if name.lower() in known]
