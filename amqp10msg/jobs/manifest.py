"""What says of a folder in an object store which files a job has made there.

Stores have no rename: what a job writes is there before the job is done. A file with the counts and
the names of all files is written last, at once, and who follows it sees all of a job or nothing.
"""

from __future__ import annotations

import glob
import json
from typing import Any

import attrs

from amqp10msg.files.stores import Place, is_url

#: The file with the counts of a job, and in a store with the names of its files, in its folder.
STATS = "_amqp10msg.json"
#: The folders of the good and of the quarantined messages.
GOOD, BAD = "messages", "quarantine"
#: Below the folder: what a job that goes on knows of itself.
UNFINISHED = "_unfinished"


def parsed(content: bytes | None, place: Place) -> dict[str, Any]:
    """Return the content of a manifest, or of notes of a job; an empty one where there is none."""
    try:
        found: dict[str, Any] = {} if content is None else json.loads(content)
    except ValueError as error:
        raise ValueError(
            f"{place.url}: not what a job writes there ({error}): the files that it listed are "
            "still in the folder; restore it, or use another folder"
        ) from None
    return found


def listed_below(source: str) -> list[str] | None:
    """List the files of a folder of a store that a job has made, or of a folder in it.

    None where it is no such folder; no files where the job is not done.
    """
    if not is_url(source):
        return None
    place = Place.of(source)
    if glob.has_magic(place.key):
        return None
    above, _, name = place.key.rpartition("/")
    folders: list[tuple[Place, tuple[str, ...]]] = [(place, (GOOD, BAD))]
    if name in {GOOD, BAD}:
        folders.append((attrs.evolve(place, key=above), (name,)))
    for folder, names in folders:
        content = (folder / STATS).read()
        if content is not None:
            made = parsed(content, folder / STATS).get("files", {})
            return sorted((folder / name / file).url for name in names for file in made[name])
        if (folder / UNFINISHED / "plan.json").state() is not None:
            return []
    return None
