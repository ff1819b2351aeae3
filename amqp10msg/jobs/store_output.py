"""The output of a job in an object store: files become valid when the manifest lists them."""

from __future__ import annotations

import contextlib
import errno
import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from amqp10msg.files.stores import StoreLocation
from amqp10msg.jobs._stats import Stats
from amqp10msg.jobs.job import Job
from amqp10msg.jobs.manifest import (
    BAD,
    GOOD,
    STATS_FILE,
    UNFINISHED_FOLDER,
    manifest_files,
    parse_object,
)
from amqp10msg.jobs.writing import PartResult, write_part


class StoreOutput:
    """A job's output folder in an object store: ``messages/``, ``quarantine/`` and a manifest.

    Files are written at their final keys, under unique names. They become valid when the manifest
    lists them, which is written last and atomically; a plain listing of the folder also shows the
    files of unfinished jobs. If two jobs write to one folder, the job that commits second fails and
    removes its files. Stores have no locks: if both jobs commit at nearly the same time, the
    manifest may list only the files of one job.
    """

    def __init__(self, url: str, compression: str = "snappy") -> None:
        self.path = StoreLocation.of(url)
        self._compression = compression
        self._run_id = uuid.uuid4().hex
        self._manifest = self.path / STATS_FILE
        self._plan = self.path / UNFINISHED_FOLDER / "plan.json"
        self._last_manifest = self._manifest.read()
        # Whether an earlier run of this job had written the manifest before it was killed.
        self._is_committed = False

    def write(
        self, number: int, attempt: int, batches: Iterable[pa.RecordBatch], job: Job
    ) -> PartResult:
        """Run a job on the batches of one part, and write the results; see `Output.write`."""
        # With the run id in the names, a later job can delete the files of a killed job.
        name = f"part-{number:05d}-{attempt:08d}-{self._run_id}-{uuid.uuid4().hex[:8]}.parquet"
        openers = {folder: (self.path / folder / name).create for folder in (GOOD, BAD)}
        return write_part(name, openers, self._compression, batches, job)

    def commit(self, parts: Sequence[PartResult], *, overwrite: bool) -> None:
        """Write the manifest with the files of the parts.

        Unless `overwrite` is true, the manifest also keeps the files that it already lists.

        Raises:
            BlockingIOError: another job has committed to the folder since `guarded` began.
        """
        if self._is_committed:
            self.delete_unfinished()
            return
        stats = Stats()
        committed: dict[str, list[str]] = {GOOD: [], BAD: []}
        for result in parts:
            stats.add(result.stats)
            for file in result.files:
                folder, _, name = file.partition("/")
                committed[folder].append(name)
        if not overwrite:
            for folder, names in manifest_files(self._last_manifest, self._manifest).items():
                committed[folder] = [*names, *committed[folder]]
        if self._manifest.read() != self._last_manifest:
            message = (
                "another job wrote to this folder meanwhile: use a separate folder for each job"
            )
            raise BlockingIOError(errno.EWOULDBLOCK, message, self.path.url)
        content = json.dumps({**stats.as_json(), "files": committed}, indent=1).encode()
        self._manifest.write(content)
        self._last_manifest = content
        if overwrite:
            listed = self._object_keys(committed)
            for item, _ in self.path.files():
                if item.key not in listed and item != self._manifest:
                    item.delete()
        self.delete_unfinished()

    def abort(self) -> None:
        """Delete the files and the saved state of the job."""
        self.delete_unfinished()

    def reject_foreign_files(self, *, overwrite: bool) -> None:
        """Raise FileExistsError if the folder has files that no job wrote, unless `overwrite`."""
        if overwrite or self._last_manifest is not None:
            return
        run_id = parse_object(self._plan.read(), self._plan).get("mark")
        run_id = run_id if isinstance(run_id, str) and run_id else self._run_id
        for item, _ in self.path.files():
            name = item.key[len(self.path.key) :].strip("/")
            if not name.startswith(f"{UNFINISHED_FOLDER}/") and run_id not in name:
                message = (
                    f"{name} was not written by a job: use the mode overwrite, or another folder"
                )
                raise FileExistsError(errno.EEXIST, message, self.path.url)

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Read the manifest at the start of the block, so that `commit` can detect another job."""
        self._last_manifest = self._manifest.read()
        yield

    def exists(self) -> bool:
        """Return True if a job has committed output to this folder."""
        return self._last_manifest is not None

    def has_plan(self, key: str) -> bool:
        """Return True if the job with this key was interrupted, so that `resume` continues it."""
        with contextlib.suppress(ValueError):
            return bool(parse_object(self._plan.read(), self._plan).get("key") == key)
        return False

    def remove_if_empty(self) -> None:
        """Do nothing: object stores have no empty folders."""

    def resume(
        self, key: str, parts: Sequence[Any], *, overwrite: bool
    ) -> tuple[list[Any], dict[int, PartResult]]:
        """Return the parts of a job, and the results of finished parts; see `Output.resume`."""
        plan = {}
        with contextlib.suppress(ValueError):
            plan = parse_object(self._plan.read(), self._plan)
        run_id, planned = plan.get("mark"), plan.get("parts")
        run_id = run_id if isinstance(run_id, str) and run_id else None
        if plan.get("key") == key and run_id is not None and isinstance(planned, list):
            self._run_id = run_id
            listed = self._object_keys(manifest_files(self._last_manifest, self._manifest))
            self._is_committed = not overwrite and any(self._run_id in key for key in listed)
            return ([], {}) if self._is_committed else (planned, self._load_results())
        self._remove_unlisted(run_id)
        state = {"key": key, "mark": self._run_id, "parts": list(parts)}
        self._plan.write(json.dumps(state).encode())
        return list(parts), {}

    def save_result(self, number: int, result: PartResult) -> None:
        """Save the result of a part, so that a resumed job can skip the part."""
        file = self.path / UNFINISHED_FOLDER / "done" / f"{number}.json"
        file.write(json.dumps(result.as_json()).encode())

    def _load_results(self) -> dict[int, PartResult]:
        existing = {item.key for item, _ in self.path.files()}
        results = {}
        for item, _ in (self.path / UNFINISHED_FOLDER / "done").files():
            with contextlib.suppress(ValueError):  # the file is damaged: run the part again
                result = PartResult.from_json(parse_object(item.read(), item))
                if all((self.path / file).key in existing for file in result.files):
                    results[int(item.key.rpartition("/")[2].removesuffix(".json"))] = result
        return results

    def delete_unfinished(self) -> None:
        """Delete the saved state of the job, and its files that the manifest does not list."""
        self._remove_unlisted(self._run_id)

    def _remove_unlisted(self, run_id: str | None) -> None:
        """Delete the saved state, and the files of run `run_id` that the manifest does not list."""
        listed = self._object_keys(manifest_files(self._manifest.read(), self._manifest))
        for item, _ in self.path.files():
            name = item.key[len(self.path.key) :].strip("/")
            is_own = run_id is not None and run_id in name and item.key not in listed
            if is_own or name.startswith(f"{UNFINISHED_FOLDER}/"):
                item.delete()

    def _object_keys(self, files: dict[str, list[str]]) -> set[str]:
        """Return the object keys of files, which are given as {subfolder: names}."""
        return {(self.path / folder / name).key for folder in files for name in files[folder]}
