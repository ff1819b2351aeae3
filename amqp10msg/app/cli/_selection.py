"""What ``--select`` takes."""

from __future__ import annotations

import re

import attrs

_RANGE = re.compile(r"(\d+)(?:(-)(\d*))?", re.ASCII)


@attrs.frozen
class Selection:
    """Numbers and ranges of numbers, such as ``3,17-20``.

    Attributes:
        ranges: first and last number of each; the last is None where there is no end.
    """

    ranges: tuple[tuple[int, int | None], ...]

    @classmethod
    def of(cls, text: str) -> Selection:
        """Read the text.

        Raises:
            ValueError: it is not a selection.
        """
        ranges = []
        for part in text.split(","):
            found = _RANGE.fullmatch(part.strip())
            if found is None:
                raise ValueError(f"{part!r} is neither a number nor a range such as 17-20")
            first, dash, last = found.groups()
            begin = int(first)
            end = begin if not dash else int(last) if last else None
            if begin < 1 or (end is not None and end < begin):
                raise ValueError(
                    f"{part!r}: numbers begin with 1, and a range with the smaller one"
                )
            ranges.append((begin, end))
        return cls(tuple(ranges))

    def __contains__(self, number: int) -> bool:
        return any(begin <= number and (end is None or number <= end) for begin, end in self.ranges)

    @property
    def last(self) -> int | None:
        """The largest number that is selected, None where there is none."""
        ends = [end for _, end in self.ranges]
        return None if None in ends else max(end or 0 for end in ends)
