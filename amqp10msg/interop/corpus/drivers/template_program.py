"""A template for a program that answers JSON lines about messages, to translate to any language.

Replace `read` and `write` by calls of the implementation. Test the program with
``amqp10msg conformance run --peer "python3 this_file.py" --only "Part 3, 3.2"``.

A request is a line on standard input, and its answer a line on standard output::

    {"do": "name"}                                                  {"name": "my program 1.0"}
    {"do": "decode", "kind": "message", "data": "005375a00178"}     {"typed": [["data", "78"]]}
    {"do": "again", "kind": "message", "data": "005375a00178"}      {"data": "005375a00178"}

The answer is ``{"refused": "why"}`` for invalid bytes, ``{"unsupported": "why"}`` for a request
that the program does not support, and ``{"error": "why"}`` for any other failure. Write anything
else to standard error: a run shows it if the program fails.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any


class RefusedError(Exception):
    """The bytes are invalid. Replace it by the error of the implementation."""


def read(data: bytes) -> list[Any]:
    """Decode a message, and return its sections in typed JSON. This example reads one data section.

    A section is its name and its content: ``["data", "78"]``, ``["amqp-value", ["string", "x"]]``,
    ``["properties", [["string", "id-1"], ["null"]]]``,
    ``["application-properties", [[["string", "key"], ["int", 5]]]]``.
    """
    head, content = data[:5], data[5:]
    if len(content) > 255 or head != b"\x00\x53\x75\xa0" + bytes([len(content)]):
        raise RefusedError("only a data section of up to 255 bytes can be read")
    return [["data", content.hex()]]


def write(sections: list[Any]) -> bytes:
    """Encode the sections that `read` has returned."""
    ((_, content),) = sections
    return b"\x00\x53\x75\xa0" + bytes([len(content) // 2]) + bytes.fromhex(content)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request."""
    if request["do"] == "name":
        return {"name": "my program 1.0"}
    if request["do"] not in ("decode", "again") or request["kind"] != "message":
        return {"unsupported": f"{request['do']} {request.get('kind', '')}"}
    if "limits" in request:
        return {"unsupported": "limits"}
    try:
        sections = read(bytes.fromhex(request["data"]))
        return {"typed": sections} if request["do"] == "decode" else {"data": write(sections).hex()}
    except RefusedError as error:
        return {"refused": str(error)}
    except Exception as error:  # noqa: BLE001 - report any exception of an implementation
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()
