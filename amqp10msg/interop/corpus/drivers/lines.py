"""Load a Python driver and answer requests in JSON lines. Needs only the standard library.

    python -P lines.py DRIVER.py [ARGUMENT …]

DRIVER.py defines a class ``Driver``; the arguments are passed to its constructor. It has:

- the attribute ``name``,
- any of the methods ``decode(kind, data)``, ``encode(kind, typed)``, ``again(kind, data)``,
  ``validate(data, profile)`` and ``answer(kind, data, given)``,
- the attribute ``refusals``: the exceptions with which the implementation refuses bytes.

A method raises NotImplementedError for unsupported requests. Any other exception is reported as an
error of the implementation, and its traceback is written to standard error.
"""

from __future__ import annotations

import difflib
import importlib.util
import json
import os
import sys
import traceback
from typing import Any

#: For each method of a driver, the key of its result in an answer.
_RESULT_KEYS = {
    "decode": "typed",
    "encode": "data",
    "again": "data",
    "validate": "violations",
    "answer": "answer",
}


def answer(driver: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request, as `amqp10msg.interop.corpus.Program` describes."""
    action = request.pop("do")
    if action == "name":
        return {"name": driver.name}
    method = getattr(driver, action, None)
    if method is None:
        return {"unsupported": f"{driver.name} does not {action}"}
    limits = request.pop("limits", None)
    if limits is not None:
        if not hasattr(driver, "limited"):
            return {
                "unsupported": "the case requires limits, which the implementation does not support"
            }
        method = getattr(driver.limited(limits), action)
    if "data" in request:
        request["data"] = bytes.fromhex(request["data"])
    try:
        result = method(**request)
    except NotImplementedError as error:
        return {"unsupported": str(error)}
    except driver.refusals as error:
        reason = f"{type(error).__name__}: {error}"
        details = {key: getattr(error, key, None) for key in ("rule", "offset")}
        return {
            "refused": reason[:500],
            **{key: detail for key, detail in details.items() if detail is not None},
        }
    except Exception as error:  # noqa: BLE001 - report any exception of an implementation
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"[:500]}
    key = _RESULT_KEYS[action]
    if key == "data":
        if not isinstance(result, (bytes, bytearray, memoryview)):
            return {"error": f"{action} of the driver returned {_type_name(result)}, not bytes"}
        return {key: bytes(result).hex()}
    try:
        json.dumps(result)
    except (TypeError, ValueError) as error:
        return {"error": f"{action} of the driver returned {_type_name(result)}, not JSON: {error}"}
    return {key: result}


def _type_name(value: Any) -> str:
    return type(value).__name__


def check(driver: Any) -> None:
    """Raise SystemExit unless the driver has a name, refusals and a method, spelt correctly."""
    kind = type(driver).__name__
    if not isinstance(getattr(driver, "name", None), str):
        raise SystemExit(f"{kind} has no attribute name, which must be a str")
    refusals = getattr(driver, "refusals", None)
    refusals = refusals if isinstance(refusals, tuple) else (refusals,)
    if not all(isinstance(item, type) and issubclass(item, BaseException) for item in refusals):
        raise SystemExit(
            f"{kind} has no attribute refusals, which must be a tuple of exception classes"
        )
    methods = [*_RESULT_KEYS, "limited"]
    for name in dir(driver):
        if name.startswith("_") or name in methods or not callable(getattr(driver, name)):
            continue
        similar = difflib.get_close_matches(name, methods, 1, 0.75)
        if similar and not hasattr(driver, similar[0]):
            raise SystemExit(
                f"{kind} has a method {name}, which is never called: rename it to {similar[0]}"
            )
    if not any(hasattr(driver, name) for name in _RESULT_KEYS):
        raise SystemExit(f"{kind} has none of the methods {', '.join(_RESULT_KEYS)}")


def main(path: str, *arguments: str) -> None:
    """Load the driver at `path` and answer the requests on standard input until it ends."""
    # Redirect stdout to stderr, so that what the implementation prints is not read as an answer.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    specification = importlib.util.spec_from_file_location("driver", path)
    if specification is None or specification.loader is None:
        raise SystemExit(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    if not hasattr(module, "Driver"):
        raise SystemExit(
            f"{path} defines no class Driver: amqp10msg conformance template prints one"
        )
    driver = module.Driver(*arguments)
    check(driver)
    for line in sys.stdin:
        out.write(json.dumps(answer(driver, json.loads(line))) + "\n")
        out.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
