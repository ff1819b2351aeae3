"""What says of a folder in an object store which files a job has made there.

Stores have no rename: what a job writes is there before the job is done. A file with the counts and
the names of all files is written last, at once, and who follows it sees all of a job or nothing.
"""

from __future__ import annotations

import glob
from typing import Any, TypeGuard

import attrs

from amqp10msg.files.stores import Place, is_url
from amqp10msg.files.text import load_object

#: The file with the counts of a job, and in a store with the names of its files, in its folder.
STATS = "_amqp10msg.json"
#: The folders of the good and of the quarantined messages.
GOOD, BAD = "messages", "quarantine"
#: Below the folder: what a job that goes on knows of itself.
UNFINISHED = "_unfinished"


def parsed(content: bytes | None, place: Place) -> dict[str, Any]:
    """Return the object in a manifest, or in notes of a job; an empty one if there is no file.

    Args:
        content: the content of the file; None if there is none.
        place: the file, for errors.

    Raises:
        ValueError: the file is damaged.
    """
    try:
        return {} if content is None else load_object(content)
    except ValueError as error:
        raise _damaged(place, str(error)) from None


def files_of(content: bytes | None, place: Place) -> dict[str, list[str]]:
    """Return the names of the files that a manifest lists, by folder: `GOOD` and `BAD`.

    Raises:
        ValueError: the manifest is damaged.
    """
    files = parsed(content, place).get("files", {})
    names = (
        {folder: files.get(folder, []) for folder in (GOOD, BAD)} if isinstance(files, dict) else {}
    )
    if not names or not all(map(is_list_of_texts, names.values())):
        raise _damaged(place, "its files are not lists of names")
    return names


def is_list_of_texts(value: Any) -> TypeGuard[list[str]]:
    """Whether a JSON value is a list of strings."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _damaged(place: Place, why: str) -> ValueError:
    return ValueError(
        f"{place.url}: not what a job writes there ({why}): the files that it listed are "
        "still in the folder; restore it, or use another folder"
    )


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
            made = files_of(content, folder / STATS)
            return sorted((folder / name / file).url for name in names for file in made[name])
        if (folder / UNFINISHED / "plan.json").state() is not None:
            return []
    return None
