"""Answer JSON lines for a driver, in any environment: nothing but the standard library is needed.

    python -P lines.py DRIVER.py [ARGUMENT …]

DRIVER.py has a class ``Driver``, made of the arguments, with ``name``; any of the methods
``decode(kind, data)``, ``encode(kind, typed)``, ``again(kind, data)``, ``validate(data, profile)``
and ``answer(kind, data, given)``; and ``refusals``, the exceptions by which the implementation
refuses bytes. NotImplementedError says that something is not supported. Any other exception is an
error of the implementation.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from typing import Any


def answer(driver: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request."""
    do = asked.pop("do")
    if do == "name":
        return {"name": driver.name}
    method = getattr(driver, do, None)
    if method is None:
        return {"unsupported": f"{driver.name} does not {do}"}
    limits = asked.pop("limits", None)
    if limits is not None:
        if not hasattr(driver, "limited"):
            return {"unsupported": "the case sets limits, and the implementation has none"}
        method = getattr(driver.limited(limits), do)
    if "data" in asked:
        asked["data"] = bytes.fromhex(asked["data"])
    try:
        made = method(**asked)
    except NotImplementedError as error:
        return {"unsupported": str(error)}
    except driver.refusals as error:
        said = f"{type(error).__name__}: {error}"
        where = {key: getattr(error, key, None) for key in ("rule", "offset")}
        return {"refused": said[:500], **{key: at for key, at in where.items() if at is not None}}
    except Exception as error:  # noqa: BLE001 - whatever an implementation does is recorded
        return {"error": f"{type(error).__name__}: {error}"[:500]}
    key = {"decode": "typed", "validate": "violations", "answer": "answer"}.get(do, "data")
    return {key: bytes(made).hex() if key == "data" else made}


def main(path: str, *arguments: str) -> None:
    """Answer until standard input ends."""
    specification = importlib.util.spec_from_file_location("driver", path)
    if specification is None or specification.loader is None:
        raise SystemExit(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    driver = module.Driver(*arguments)
    # What an implementation prints is not an answer.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        out.write(json.dumps(answer(driver, json.loads(line))) + "\n")
        out.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
