"""The manifest of an output folder in an object store: the list of files that jobs have committed.

Object stores cannot rename, so the files of a job are visible before the job ends. The manifest,
with the counts and the names of all files, is written last and atomically. A reader that reads only
the files in the manifest sees either all files of a job or none.
"""

from __future__ import annotations

import glob
from typing import Any, TypeGuard

import attrs

from amqp10msg.files.stores import StoreLocation, is_url
from amqp10msg.files.text import load_object

#: The file in an output folder with the counts of the job. In an object store, it is the manifest.
STATS_FILE = "_amqp10msg.json"
#: The subfolders for good messages and for quarantined messages.
GOOD, BAD = "messages", "quarantine"
#: The subfolder for the state of an unfinished job, with which a later run resumes the job.
UNFINISHED_FOLDER = "_unfinished"


def parse_object(content: bytes | None, file: StoreLocation) -> dict[str, Any]:
    """Parse a manifest or a state file of a job.

    Args:
        content: the content of the file; None if the file does not exist.
        file: the location of the file, for errors.

    Returns:
        The JSON object, or an empty dict if the file does not exist.

    Raises:
        ValueError: the file is damaged.
    """
    try:
        return {} if content is None else load_object(content)
    except ValueError as error:
        raise _damaged_manifest_error(file, str(error)) from None


def manifest_files(content: bytes | None, file: StoreLocation) -> dict[str, list[str]]:
    """Return the file names that a manifest lists, by subfolder: `GOOD` and `BAD`.

    Raises:
        ValueError: the manifest is damaged.
    """
    files = parse_object(content, file).get("files", {})
    names = (
        {folder: files.get(folder, []) for folder in (GOOD, BAD)} if isinstance(files, dict) else {}
    )
    if not names or not all(map(is_string_list, names.values())):
        raise _damaged_manifest_error(file, "`files` must map each folder to a list of names")
    return names


def is_string_list(value: Any) -> TypeGuard[list[str]]:
    """Whether a JSON value is a list of strings."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _damaged_manifest_error(file: StoreLocation, problem: str) -> ValueError:
    return ValueError(
        f"{file.url}: the manifest is damaged ({problem}). The files that it listed are still in "
        "the folder: restore the manifest, or use another folder"
    )


def list_committed_files(source: str) -> list[str] | None:
    """List the committed files of a job's output folder in an object store.

    Args:
        source: the output folder, or its subfolder `GOOD` or `BAD`.

    Returns:
        The URLs of the files. An empty list while the first job is still running. None if `source`
        is not in an object store, or is not the output folder of a job.
    """
    if not is_url(source):
        return None
    requested = StoreLocation.of(source)
    if glob.has_magic(requested.key):
        return None
    parent, _, name = requested.key.rpartition("/")
    folders: list[tuple[StoreLocation, tuple[str, ...]]] = [(requested, (GOOD, BAD))]
    if name in {GOOD, BAD}:
        folders.append((attrs.evolve(requested, key=parent), (name,)))
    for folder, names in folders:
        content = (folder / STATS_FILE).read()
        if content is not None:
            files = manifest_files(content, folder / STATS_FILE)
            return sorted(
                (folder / name / file_name).url for name in names for file_name in files[name]
            )
        if (folder / UNFINISHED_FOLDER / "plan.json").state() is not None:
            return []
    return None
