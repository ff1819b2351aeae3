"""Where inputs that break the contract are kept, and how they are told."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: So many in one run are enough: one more says nothing.
MOST_FINDINGS = 10


class Findings:
    """The inputs that one run found.

    Args:
        folder: where they are kept; made with the first one.
        prefix: of their names, such as the build that ran.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        self.folder = folder
        self.prefix = prefix
        self.count = 0

    @contextmanager
    def kept(self, octets: bytes, kind: str = "") -> Iterator[None]:
        """Keep the input if what is done with it raises, and say so.

        Args:
            octets: the input.
            kind: of the input, for its name.

        Raises:
            RuntimeError: there are so many findings that one more says nothing.
        """
        try:
            yield
        except Exception as error:
            self.count += 1
            self.folder.mkdir(parents=True, exist_ok=True)
            digest = hashlib.sha256(octets).hexdigest()[:16]
            name = "-".join(filter(None, (self.prefix, kind, digest)))
            (self.folder / name).write_bytes(octets)
            print(f"FINDING {name} {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            if self.count >= MOST_FINDINGS:
                raise RuntimeError(f"{self.count} findings are enough") from error
