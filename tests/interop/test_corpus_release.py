"""The corpus as it is released: the same bytes each time, and read by readers of other kinds."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import pytest

pytest.importorskip("cbor2")
pytest.importorskip("pyarrow")

from amqp10msg.interop import corpus

pytestmark = pytest.mark.once

Release = Callable[[Path], int]


@pytest.fixture(scope="module")
def release() -> Release:
    """Return `release` of the tool, whose import loads the sources of the corpus."""
    if find_spec("release_corpus") is None:
        pytest.skip("the tools are not here: it takes a checkout")
    return cast("Release", import_module("release_corpus").release)


@pytest.fixture(scope="module")
def folder(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("release") / "corpus"
    assert len(corpus.load()) == release(made)
    return made


def test_a_release_is_the_same_each_time(release: Release, folder: Path, tmp_path: Path) -> None:
    release(tmp_path / "again")

    assert (folder / "SHA256SUMS").read_bytes() == (tmp_path / "again/SHA256SUMS").read_bytes()
    for line in (folder / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert digest == hashlib.sha256((folder / name).read_bytes()).hexdigest()
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


@pytest.mark.parametrize("name", ["data", "corpus.cborseq", "corpus.parquet"])
def test_every_form_holds_the_same_cases(folder: Path, name: str) -> None:
    assert corpus.load() == corpus.load(folder / name)


def test_node_reads_every_case(folder: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not on the PATH")
    program = (
        f"const cases = require({json.dumps(str(folder))});"
        "const one = cases.find((one) => one.id === 'header-full');"
        "console.log(JSON.stringify([cases.length, one.data]))"
    )
    done = subprocess.run([node, "-e", program], capture_output=True, text=True, check=True)

    expected = {case.id: case.data.hex() for case in corpus.load()}
    assert [len(expected), expected["header-full"]] == json.loads(done.stdout)


def test_go_embeds_the_files(folder: Path) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("go is not on the PATH")
    (folder / "corpus_test.go").write_text(
        'package corpus\nimport ("testing"; "bytes")\n'
        "func TestData(t *testing.T) {\n"
        '  lines := 0\n  files, _ := Data.ReadDir("data")\n'
        "  for _, file := range files {\n"
        '    text, err := Data.ReadFile("data/" + file.Name())\n'
        "    if err != nil { t.Fatal(err) }\n"
        '    lines += bytes.Count(text, []byte("\\n"))\n'
        "  }\n"
        f"  if lines != {len(corpus.load())} {{ t.Fatal(lines) }}\n}}\n"
    )
    done = subprocess.run([go, "test"], cwd=folder, capture_output=True, text=True, check=False)
    (folder / "corpus_test.go").unlink()

    assert 0 == done.returncode, done.stdout + done.stderr
