"""A bridge as a service: systemd notifications, secrets in files, and the deployment files."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("pika")
pytest.importorskip("prometheus_client")
pytest.importorskip("click")

import yaml

from amqp10msg.app.cli import main
from amqp10msg.net.bridge import parse_url
from amqp10msg.net.bridge.management import Management
from amqp10msg.net.bridge.monitor import _PROBES
from amqp10msg.net.bridge.routes import read_routes
from amqp10msg.net.bridge.service import Service
from tests.basic_broker import BasicBroker, running
from tests.bridging import numbered

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("in_a_folder")]
ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "deploy"


# Secrets in files.


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n")))
def test_password_from_a_file(password: str) -> None:
    """For any characters, and with or without a final newline, which editors add."""
    for end in ("", "\n"):
        Path("secret").write_bytes(f"{password}{end}".encode())
        found = parse_url("amqps://u:${file:secret}@h/${file:secret}")
        assert (password, "h") == (found.password, found.host)
        assert (password or None) == found.address
        api = Management("http://u:${file:secret}@h:1", found)
        assert "http://h:1" == api.url


def test_missing_password_file_is_named() -> None:
    with pytest.raises(ValueError, match="none/secret, which a URL names: No such file"):
        parse_url("amqp://u:${file:none/secret}@h/q")


# systemd.


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A notification socket like systemd's."""
    if not hasattr(socket, "AF_UNIX"):
        pytest.skip("there are no such sockets")
    path = f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(path)
        made.settimeout(20)
        yield made, path


def test_service_without_notify_socket_is_a_no_op() -> None:
    service = Service({})
    service.started()
    service.alive("x")

    assert service.every is None
    # Nobody is there: that ends nothing.
    Service({"NOTIFY_SOCKET": "/none/there"}).started()


@pytest.mark.parametrize(
    "given, every",
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 30.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "x"}, None),
    ],
)
def test_watchdog_interval_is_half_of_the_timeout(
    given: dict[str, str], every: float | None
) -> None:
    assert every == Service({"NOTIFY_SOCKET": "/s", **given}).every


def test_stopping_service_is_not_reported_as_ready_again(
    manager: tuple[socket.socket, str],
) -> None:
    """A reload that began before SIGTERM may finish after it."""
    said, path = manager
    service = Service({"NOTIFY_SOCKET": path})

    service.reloading()
    service.stopping()
    service.started()
    service.reloading()
    service.stopping()
    service.alive("draining")

    seen = [said.recv(4_096).decode().splitlines()[0] for _ in range(3)]
    assert ["RELOADING=1", "STOPPING=1", "WATCHDOG=1"] == seen


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there are no such sockets")
def test_change_of_state_waits_for_room_in_a_full_socket(
    manager: tuple[socket.socket, str],
) -> None:
    """Linux queues about ten datagrams. READY=1 is sent once, so it must not be dropped."""
    receiver, path = manager
    service = Service({"NOTIFY_SOCKET": path})
    for _ in range(1_000):
        service.alive("busy")
    with pytest.raises(BlockingIOError):
        _send_without_waiting(path)

    sender = threading.Thread(target=service.started)
    sender.start()
    sender.join(timeout=0.5)  # time enough for a send that does not wait to fail
    received: list[str] = []
    while "READY=1" not in received:
        received.append(receiver.recv(4_096).decode())
    sender.join()


def _send_without_waiting(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(b"probe", path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there are no such sockets")
def test_abstract_notify_socket() -> None:
    name = f"amqp10msg-{os.getpid()}-{time.monotonic_ns()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(f"\0{name}")
        made.settimeout(5)
        Service({"NOTIFY_SOCKET": f"@{name}"}).alive("two\nlines")

        assert b"WATCHDOG=1\nSTATUS=two lines" == made.recv(4_096)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal")
def test_bridge_notifies_systemd_of_its_state(manager: tuple[socket.socket, str]) -> None:
    said, path = manager
    broker = BasicBroker("a", "b")
    broker.queues["a"].extend(numbered(3))

    def until(text: str) -> list[str]:
        seen: list[str] = []
        while not seen or text not in seen[-1]:
            seen.append(said.recv(4_096).decode())
        return seen

    with running(broker):
        Path("routes.toml").write_text(
            f"[[route]]\nname='r'\nfrom='{broker.url('queue=a')}'\nto='{broker.url('queue=b')}'\n"
        )
        variables = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "2000000", "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(
            [sys.executable, "-m", "amqp10msg", "bridge", "--config", "routes.toml"],
            env={**os.environ, **variables},
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        ) as process:
            watchdog = threading.Timer(60, process.kill)
            watchdog.start()
            first = until("READY=1")
            until("STATUS=3 messages moved; r: running")
            process.send_signal(signal.SIGHUP)
            reloading = until("RELOADING=1")[-1]
            until("READY=1")
            process.send_signal(signal.SIGTERM)
            until("STOPPING=1")
            process.wait()
            watchdog.cancel()

    assert ["READY=1"] == first
    assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", reloading)
    assert 0 == process.returncode


# Files that people copy.


def arguments_of(line: list[str]) -> dict[str, Any]:
    """Parse arguments as the command does, without running it."""
    Path("routes.toml").touch()
    given = [re.sub(r"/etc/amqp10msg/", "", one) for one in line]
    assert "bridge" == given[0]
    # Click keeps the names of the option for help that it finds in the first context.
    above = main.make_context("amqp10msg", given[:1])
    return main.commands["bridge"].make_context("bridge", given[1:], parent=above).params


def test_systemd_unit_starts_a_bridge_with_notifications() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "amqp10msg-bridge.service")
    service = unit["Service"]

    found = arguments_of(shlex.split(service["ExecStart"])[1:])
    assert (("127.0.0.1", 9419), "json") == (found["listen"], found["log_format"])
    assert ("notify", "60") == (service["Type"], service["WatchdogSec"])
    assert "-HUP" in service["ExecReload"]
    assert 30 < int(service["TimeoutStopSec"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_verifies_the_unit() -> None:
    text = (DEPLOY / "amqp10msg-bridge.service").read_text()
    # A program that is here, as the unit's own is not.
    Path("amqp10msg-bridge.service").write_text(
        text.replace("/opt/amqp10msg/bin/amqp10msg", sys.executable)
    )
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", "./amqp10msg-bridge.service"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)


def manifest() -> dict[str, Any]:
    found = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    return {one["kind"]: one for one in found}


def test_kubernetes_manifest_matches_the_probes_and_the_routes() -> None:
    objects = manifest()
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    for probe, path in (("livenessProbe", "/live"), ("readinessProbe", "/ready")):
        assert path == container[probe]["httpGet"]["path"]
        assert path.encode() in _PROBES
    assert "512Mi" == container["resources"]["limits"]["memory"]
    found = arguments_of(container["args"])
    assert ("0.0.0.0", container["ports"][0]["containerPort"]) == found["listen"]
    assert 30 < pod["terminationGracePeriodSeconds"]
    mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert set(mounts.values()) == volumes.keys()
    assert objects["Secret"]["metadata"]["name"] == volumes["secrets"]["secret"]["secretName"]
    assert objects["ConfigMap"]["metadata"]["name"] == volumes["routes"]["configMap"]["name"]
    claim = volumes["state"]["persistentVolumeClaim"]["claimName"]
    assert objects["PersistentVolumeClaim"]["metadata"]["name"] == claim

    routes = objects["ConfigMap"]["data"]["routes.toml"]
    named = re.findall(r"\$\{file:([^}]*)\}", routes)
    assert objects["Secret"]["stringData"].keys() == {Path(one).name for one in named}
    assert {"/run/secrets/bridge"} == {str(Path(one).parent) for one in named} & mounts.keys()
    for name in named:
        Path(Path(name).name).write_text("secret")
        routes = routes.replace(name, Path(name).name)
    Path("routes.toml").write_text(routes)
    (route,) = read_routes(Path("routes.toml"))
    assert ("secret", "secret") == (route.source.password, route.target.password)
    for kept in (route.options.quarantine, route.options.deduplicate):
        assert kept is not None
        assert str(kept.parent) in mounts


def test_image_starts_a_bridge_with_the_mounted_config() -> None:
    text = (DEPLOY / "Containerfile").read_text()

    (line,) = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    found = arguments_of(yaml.safe_load(line))
    assert 9419 == found["listen"][1]
    assert "EXPOSE 9419" in text
    for extra in re.findall(r"\[(\w+(?:,\w+)*)\]'", text):
        names = (ROOT / "pyproject.toml").read_text()
        assert all(f"\n{name} = [" in names for name in extra.split(","))


#: SIGTERM comes while the report is made.
_WHILE_REPORTING = """
import os
import signal

from amqp10msg.app.cli import main
from amqp10msg.net.bridge import report

made = report.as_json

def as_json(*given):
    os.kill(os.getpid(), signal.SIGTERM)
    return made(*given)

report.as_json = as_json
ends = ["--from", "file:in.jsonl", "--to", "amqp://127.0.0.1:1/q"]
main(["bridge", *ends, "--connect-timeout", "0.1", "--report", "r.json"])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM that can be held back")
def test_sigterm_does_not_prevent_the_report(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WHILE_REPORTING],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert 1 == done.returncode, done.stderr
    assert json.loads((tmp_path / "r.json").read_text())["routes"]
