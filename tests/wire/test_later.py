"""Public names that a package imports when one of them is first used."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

PACKAGES = ["delivery", "files", "net.bridge", "notation"]


@pytest.mark.parametrize("name", PACKAGES)
def test_all_public_names_can_be_imported_and_are_listed(name: str) -> None:
    package = importlib.import_module(f"amqp10msg.{name}")

    assert set(package.__all__) <= set(dir(package))
    assert all(getattr(package, each) is not None for each in package.__all__)
    with pytest.raises(AttributeError, match=f"module 'amqp10msg.{name}' has no attribute 'what'"):
        package.what  # noqa: B018  (it raises)


def test_names_are_listed_before_they_are_imported() -> None:
    program = "import amqp10msg.files, sys; print('read' in dir(amqp10msg.files), len(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    program = "import amqp10msg.files, sys; print('read', len(sys.modules))"
    before = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)

    assert [b"True", before.stdout.split()[1]] == done.stdout.split()
