"""The workflows' shell steps, tried on this machine, and the release check-list."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import release_check
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
if not GITHUB.is_dir():
    pytest.skip("the workflows are not in a source distribution", allow_module_level=True)
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
# What runs for each verb of make that a workflow calls.
MAKES = {
    "release-check": "release_check.py",
    "corpus": "release_corpus.py",
    "docs": "sphinx",
    "inspector": "build_inspector.py",
    "sparks": "tests/spark",
}
# It says on one line how it was called, word by word, and does nothing.
RECORDER = '#!/bin/sh\n(basename "$0"; printf "%s\\n" "$@") | paste -s >>"$RECORD"\n'


def steps() -> Iterator[tuple[str, str]]:
    """Yield the name and the script of every step that is a shell's."""
    for path in WORKFLOWS:
        for job, content in yaml.safe_load(path.read_text("utf-8"))["jobs"].items():
            for number, step in enumerate(content["steps"]):
                if "run" in step:
                    yield f"{path.stem}-{job}-{number}", step["run"]


STEPS = dict(steps())


@pytest.mark.parametrize("script", STEPS.values(), ids=STEPS)
def test_workflow_steps_call_existing_targets(script: str, tmp_path: Path) -> None:
    """Run the step with stand-ins for the programs, and look whether each call means something."""
    for name in ("bash", "make", "python", "sudo"):
        (tmp_path / name).write_text(RECORDER)
        (tmp_path / name).chmod(0o755)
    record = tmp_path / "record"
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "RECORD": str(record),
        "TMPDIR": str(tmp_path),
        "GITHUB_REF_NAME": "v1.2.3",
    }
    done = subprocess.run(
        [str(shutil.which("bash")), "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    calls = record.read_text().splitlines()
    assert calls
    for called in calls:
        program, *words = called.split("\t")
        if program == "make":
            planned = subprocess.run(
                ["make", "-n", *words], cwd=ROOT, capture_output=True, text=True, check=True
            )
            assert MAKES[words[0]] in planned.stdout
            assert ("v1.2.3" in planned.stdout) == ("--tag" in called)
        elif program == "sudo":
            assert os.access(ROOT / words[-1], os.X_OK), called
        elif program == "bash":
            subprocess.run(["bash", "-n", words[0]], cwd=ROOT, check=True)
        elif "--group" in words:
            assert set(words[words.index("--group") + 1 :: 2]) <= set(GROUPS)


def tree(folder: Path, version: str, heading: str) -> Path:
    """Make a tree that declares a version, with a changelog."""
    (folder / "amqp10msg").mkdir()
    (folder / "amqp10msg" / "__init__.py").write_text(f'__version__ = "{version}"\n')
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n")
    return folder


def test_release_has_one_version(tmp_path: Path) -> None:
    here = tree(tmp_path, "1.2.3", "## [1.2.3] - 2026-01-31")
    assert release_check.check_names(here, None) == "1.2.3"
    assert release_check.check_names(here, "v1.2.3") == "1.2.3"


@pytest.mark.parametrize(
    "heading, tag, complaint",
    [
        ("## [1.2.2] - 2026-01-31", None, "CHANGELOG.md has no section for 1.2.3"),
        ("## [1.2.3] - 2026-01-31", "v1.2.4", "the tag is v1.2.4, and the package is 1.2.3"),
        ("## [1.2.3] - unreleased", "v1.2.3", "CHANGELOG.md dates 1.2.3 'unreleased'"),
    ],
)
def test_release_with_two_versions_is_refused(
    heading: str, tag: str | None, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(release_check.CheckError, match=complaint.split(":", maxsplit=1)[0]):
        release_check.check_names(tree(tmp_path, "1.2.3", heading), tag)


def test_release_check_failure_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = release_check.main(["--tag", "v0.0.0", "--out", str(tmp_path / "dist")])

    assert status == 1
    assert capsys.readouterr().out.startswith("[ ] the tag is v0.0.0, and the package is ")


def test_repacked_sdist_is_reproducible(tmp_path: Path) -> None:
    """Its bytes are those of its content, whatever the order, the owners and the times."""
    texts = {"p/a.py": b"a", "p/b.sh": b"b", "p/c/d.py": b"d"}

    def packed(name: str, names: Sequence[str], owner: int, when: int) -> Path:
        with tarfile.open(tmp_path / name, "w:gz") as archive:
            for one in names:
                member = tarfile.TarInfo(one)
                member.size, member.mtime, member.uid = len(texts[one]), when, owner
                member.uname = f"user-{owner}"
                member.mode = (0o700 if one.endswith(".sh") else 0o600) | owner
                archive.addfile(member, io.BytesIO(texts[one]))
        release_check.pack_again(tmp_path / name, 1_767_225_600)
        return tmp_path / name

    first = packed("first.tar.gz", list(texts), 1, 1)
    second = packed("second.tar.gz", list(texts)[::-1], 4, 2_000_000_000)

    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as archive:
        read = {one.name: archive.extractfile(one) for one in archive.getmembers()}
        assert texts == {name: stream and stream.read() for name, stream in read.items()}
        assert {1_767_225_600} == {one.mtime for one in archive.getmembers()}
        assert [0o644, 0o755, 0o644] == [one.mode for one in archive.getmembers()]


@pytest.mark.soak
def test_the_release_check_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("build", "twine", "cyclonedx_py"):
        pytest.importorskip(module, reason=f"{module} is not installed: make release-check")
    status = release_check.main(["--out", str(tmp_path / "dist")])

    printed = capsys.readouterr().out
    assert status == 0, printed
    assert "built twice, with the same bytes" in printed
    assert "pure wheel with attrs alone: the corpus, " in printed
    assert "a bill of materials: sbom.cdx.json" in printed
