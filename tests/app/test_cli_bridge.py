"""``amqp10msg bridge``: options and config files, signals, reports, metrics, hidden credentials."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

click_testing = pytest.importorskip("click.testing")
pytest.importorskip("pika")
pytest.importorskip("proton")
pytest.importorskip("prometheus_client")

from amqp10msg import Message, Properties, Symbol  # noqa: E402
from amqp10msg.app.cli import main  # noqa: E402
from amqp10msg.app.cli._bridging import hide_credentials  # noqa: E402
from amqp10msg.app.cli._live import LiveLine, log_lines  # noqa: E402
from amqp10msg.basic import BasicMessage, BasicProperties  # noqa: E402
from amqp10msg.net.bridge import (  # noqa: E402
    RouteOptions,
    RouteSpec,
    Statistics,
    process,
    read_quarantine,
)
from amqp10msg.net.bridge.routes import apis_of, read_routes  # noqa: E402
from amqp10msg.net.ends.files import append_lines  # noqa: E402
from amqp10msg.net.serve import Server  # noqa: E402
from tests.basic_broker import BasicBroker, running  # noqa: E402
from tests.bridging import stored  # noqa: E402
from tests.waiting import wait_until  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.chdir(tmp_path)
    users = {"u": "s3cr3t"}
    with Server(users=users, anonymous=True, accept_durable=True, max_message_size=2000) as made:
        for number in range(10):
            made.publish("a", Message(b"%d" % number, properties=Properties(subject=f"{number}")))
        yield made


def run(*arguments: str, status: int = 0, env: dict[str, str] | None = None) -> Any:
    done = click_testing.CliRunner().invoke(main, ["bridge", *arguments], env=env)
    assert status == done.exit_code, done.output
    return done


def signed(server: Server, address: str) -> str:
    return server.url.replace("amqp://", "amqp://u:s3cr3t@") + f"/{address}"


def test_a_route_and_its_reports(server: Server) -> None:
    ends = ["--from", signed(server, "a"), "--to", signed(server, "b"), "--max-messages", "10"]
    reports = ["--report", "r.json", "--report", "r.html"]

    done = run(*ends, *reports, "--log", "json")

    assert 10 == server.counts("b").available
    (route,) = json.loads(Path("r.json").read_text())["routes"]
    assert ("a -> b", 10, "ended") == (route["name"], route["accepted"], route["state"])
    page = Path("r.html").read_text()
    assert "AMQP messages bridged" in page
    events = [json.loads(line)["event"] for line in done.stderr.splitlines()]
    assert ["target-open", "source-open", "route-ended"] == events
    for text in (done.output, page, Path("r.json").read_text()):
        assert "s3cr3t" not in text


def test_wrong_credentials_are_named_but_not_shown(server: Server) -> None:
    source = signed(server, "a").replace("s3cr3t", "h1dd3n")

    done = run("--from", source, "--to", f"{server.url}/b", status=1)

    (said,) = (line for line in done.stderr.splitlines() if "unauthorized" in line)
    assert said.endswith("amqp:unauthorized-access: wrong user or password")
    assert "h1dd3n" not in done.output


@pytest.mark.parametrize(
    "arguments, status, last",
    [
        (
            ["--from", "amqp://127.0.0.1:1/a", "--to", "file:b", "--no-reconnect"],
            1,
            "command-failed",
        ),
        (["--from", "amqp://x:pw@h/a", "--to", "file:b", "--dry-run"], 1, "command-failed"),
        (["--from", "amqp://h/a", "--to", "nowhere"], 2, "usage-error"),
        (["--window", "0"], 2, "usage-error"),
        (["--config", "missing.toml"], 2, "usage-error"),
        ([], 2, "usage-error"),
    ],
)
@pytest.mark.parametrize("is_last", [True, False])
def test_every_line_on_stderr_is_json(
    server: Server, arguments: list[str], status: int, last: str, is_last: bool
) -> None:
    log = ["--log", "json"]
    arguments = [argument.replace("@h/", f"@127.0.0.1:{server.port}/") for argument in arguments]

    done = run(*([*arguments, *log] if is_last else [*log, *arguments]), status=status)

    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert (last, "error") == (lines[-1]["event"], lines[-1]["level"])
    assert lines[-1]["why"]
    assert not lines[-1]["why"].startswith("amqp10msg")
    # The option of one command has no effect on the next one in this process.
    assert run(*arguments, status=status).stderr.splitlines()[-1].startswith("amqp10msg")


def test_listening_and_interruption_are_json_lines(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = ["--from", signed(server, "a"), "--to", f"{server.url}/b", "--max-messages", "1"]
    done = run(*ends, "--log", "json", "--listen", "127.0.0.1:0")
    first = json.loads(done.stderr.splitlines()[0])
    assert ("listening", "info") == (first["event"], first["level"])
    assert first["url"].endswith("/metrics")

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(process, "run_bridge", interrupt)
    (line,) = run(*ends, "--log", "json", status=130).stderr.splitlines()
    assert {"event": "interrupted", "why": "interrupted"}.items() <= json.loads(line).items()


def test_credentials_of_the_environment(server: Server) -> None:
    source = signed(server, "a").replace("u:s3cr3t", "${NAME}:${WORD}")
    ends = ["--from", source, "--to", f"{server.url}/b", "--max-messages", "10"]

    run(*ends, env={"NAME": "u", "WORD": "s3cr3t"})

    assert 10 == server.counts("b").available
    assert "no variable WORD" in run(*ends, env={"NAME": "u"}, status=2).output


def test_config_file_with_routes(server: Server) -> None:
    Path("routes.toml").write_text(
        f"""
        [defaults]
        idle = 0.2
        quarantine = "aside.jsonl"
        [[route]]
        name = "first"
        from = "{server.url}/a"
        to = "{server.url}/b"
        max-messages = 4
        [[route]]
        from = "{server.url}/c"
        to = "{server.url}/d"
        on = {{ too-large = "reject" }}
        """
    )

    done = run("--config", "routes.toml", "--log", "none")

    assert (6, 4) == (server.counts("a").available, server.counts("b").available)
    assert ["first", "c"] == [line.split()[0] for line in done.output.splitlines()[2:]]
    first, second = read_routes(Path("routes.toml"))
    assert (Path("aside.jsonl"), {}) == (first.options.quarantine, first.options.on)
    assert {"too-large": "reject"} == second.options.on


def test_filter_that_no_message_can_pass_is_reported_without_a_log(server: Server) -> None:
    ends = ["--from", signed(server, "a"), "--to", "file:out.jsonl", "--max-messages", "10"]
    options = ["--filter", "colour = 'red'", "--unmatched", "accept", "--log", "none"]

    done = run(*ends, *options, "--report", "r.json", "--report", "r.html")

    assert "no message passed the filter: no message sets colour" in done.output
    (route,) = json.loads(Path("r.json").read_text())["routes"]
    assert ["no message sets colour"] == route["unset_names"]
    verdict = "Not complete: 1 filter passed no message: no message sets colour."
    assert verdict in Path("r.html").read_text()


def test_dry_run_reports_a_filter_that_no_message_can_pass(server: Server) -> None:
    ends = ["--from", signed(server, "a"), "--to", "file:out.jsonl", "--dry-run", "--idle", "0.2"]
    text = "no message passed the filter: no message sets colour"

    for selector, is_reported in (("colour = 'red'", True), ("colour IS NULL", False)):
        done = run(*ends, "--filter", selector, "--report", "r.json")

        assert is_reported == (text in done.output)
        (queue,) = json.loads(Path("r.json").read_text())["queues"]
        assert ["no message sets colour"] * is_reported == queue["unset_names"]


@pytest.mark.parametrize("ending", [["--until-empty", "--idle", "0.2"], ["--until-length"]])
def test_file_that_was_sent_before_is_reported(server: Server, ending: list[str]) -> None:
    append_lines(Path("in.jsonl"), [json.dumps({"raw": Message(b"x").encode().hex()}) + "\n"] * 3)
    ends = ["--from", "file:in.jsonl?protocol=1.0", "--to", f"{server.url}/b", "--log", "none"]
    command = [*ends, *ending, "--state", "s.db"]
    assert "earlier runs" not in run(*command).output

    done = run(*command, "--report", "r.json", "--report", "r.html")

    sentence = (
        "s.db says that earlier runs settled all 3 messages of in.jsonl; to send them again, "
        "give another --state"
    )
    assert sentence in done.output
    (route,) = json.loads(Path("r.json").read_text())["routes"]
    assert sentence == route["nothing_new"]
    assert f"No message was received: {sentence}." in Path("r.html").read_text()
    assert 3 == server.counts("b").available


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "this has none"),
        ("x = 1\n[[route]]", "this has 'x'"),
        ("[[route]]\nfrom = 'amqp://h/q'", "route 1: it has no 'to'"),
        ("[[route]]\nform = 'amqp://h/q'\nto = 'amqp://h/r'", "did you mean from?"),
        ("[[route]]\nfrom = 'amqp://h/q'\nwindwo = 3", "did you mean window?"),
        ("[[route]]\nfrom = 'amqp://h/q'\nuntil-empty = true", "idle = SECONDS ends a route"),
        ("[[route]]\nfrom = 'amqp://u:s3cr3t@h/q#'\nto = 'amqp://h'", "%23"),
        (
            "[[route]]\nfrom = 'amqp://h/q'\nto = 'amqp://h/q'\nspeed = 1",
            "'speed' is not an option",
        ),
        (
            "[[route]]\nfrom = 'amqp://h/q'\nto = 'amqp://h/q'\nwindow = 'x'",
            "window must be a whole number",
        ),
        ("[route", "at the end of a table"),
        (
            "[[route]]\nname = 'twin'\nfrom = 'amqp://h/a'\nto = 'amqp://h/b'\n" * 2,
            "two routes have the name 'twin'",
        ),
        (
            "[[route]]\nfrom = 'file:a?offset=last'\nto = 'amqp://h/b'",
            "offset= of a file must be first or a number of messages, not 'last'",
        ),
        (
            (
                "[[route]]\nfrom = 'amqp091://h/?queue=a'\nto = 'file:b'\ndeclare = true\n"
                "management = 'http://h'\ntarget-management = 'http://h'"
            ),
            "declare needs queues of RabbitMQ as source and target",
        ),
    ],
)
@pytest.mark.parametrize("mode", [(), ("--dry-run",)])
def test_invalid_config_file(tmp_path: Path, text: str, said: str, mode: tuple[str, ...]) -> None:
    path = tmp_path / "routes.toml"
    path.write_text(text)

    done = run("--config", str(path), *mode, status=2)

    assert said in done.output
    assert "s3cr3t" not in done.output


def test_report_folder_is_checked_before_messages_are_moved(server: Server) -> None:
    ends = ["--from", signed(server, "a"), "--to", f"{server.url}/b", "--max-messages", "10"]

    done = run(*ends, "--report", "missing/r.json", status=2)

    assert "--report: missing/r.json: missing is not a folder: create it" in done.output
    assert 10 == server.counts("a").available


def test_filter_and_too_large_messages(server: Server) -> None:
    server.publish("a", Message(b"x" * 1900))
    with Server(max_message_size=1000, accept_durable=True) as small:
        ends = ["--from", f"{server.url}/a", "--to", f"{small.url}/b", "--max-messages", "11"]
        selected = "JMSType IS NULL OR JMSType IN ('1', '3')"
        done = run(*ends, "--filter", selected, "--unmatched", "accept", status=5)

        assert 2 == small.counts("b").available
    (entry,) = read_quarantine(Path("quarantine.jsonl"))
    assert ("too-large", 1) == (entry.reason, entry.octets.count(b"x" * 1900))
    assert [
        "a -> b: 1 message in quarantine: too-large",
        "a -> b: 8 messages skipped by the filter",
        (
            "quarantine.jsonl has the messages in quarantine; when the cause is fixed, send them "
            "with --from 'file:quarantine.jsonl?protocol=1.0' --until-empty --state FILE "
            "--quarantine OTHER"
        ),
    ] == done.output.splitlines()[-3:]


def test_sigterm_exits_with_0_and_metrics_count_messages(server: Server) -> None:
    command = [sys.executable, "-m", "amqp10msg", "bridge", "--listen", "127.0.0.1:0"]
    command += ["--from", f"{server.url}/a", "--to", f"{server.url}/b"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        assert process.stderr is not None
        url = process.stderr.readline().strip()
        all_accepted = 'amqp10msg_bridge_accepted_total{route="a -> b"} 10.0'
        wait_until(lambda: all_accepted in urllib.request.urlopen(url).read().decode())
        health = json.load(urllib.request.urlopen(url.replace("metrics", "health")))
        with pytest.raises(urllib.error.HTTPError, match="404") as caught:
            urllib.request.urlopen(url.replace("metrics", "other"))
        caught.value.close()
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate()
        watchdog.cancel()

    assert {"a -> b": "running"} == health
    assert 0 == process.returncode
    assert "10" in output.splitlines()[-1].split()
    assert 10 == server.counts("b").available


@pytest.mark.parametrize("profile, lost", [("lossless", 0), ("rabbitmq-4.3", 3)])
def test_dry_run_consumes_nothing_and_shows_losses(server: Server, profile: str, lost: int) -> None:
    for number in range(3):
        server.publish("c", Message(b"x", footer={Symbol("x-opt-a"): number}))
    server.publish("c", Message(b"plain"))
    before = server.messages("c")

    done = run(
        "--from",
        f"{server.url}/c",
        "--to",
        "amqp091://nowhere/?queue=q",
        "--dry-run",
        "--idle",
        "0.5",
        "--profile",
        profile,
    )

    losing = f"{lost} of 4" if lost else "none"
    assert f"4 messages read and returned; {losing} would lose data" in done.output
    assert (lost > 0) == ("3 messages: footer" in done.output)
    assert before == server.messages("c")


def test_dry_run_says_that_it_read_the_first_messages_only(tmp_path: Path) -> None:
    line = json.dumps({"raw": Message("x").encode().hex()}) + "\n"
    (tmp_path / "many.jsonl").write_text(line * 1_001)
    command = [
        "--from",
        f"file:{tmp_path}/many.jsonl",
        "--to",
        "amqp://h/q",
        "--dry-run",
        "--idle",
        "0.1",
    ]

    for more, expected in (([], True), (["--max-messages", "2"], False)):
        done = run(*command, *more)
        assert expected == ("only the first 1,000 messages were read; --max-m" in done.output)


def test_dry_run_of_an_empty_source(server: Server) -> None:
    ends = ["--from", signed(server, "a").replace("s3", "x"), "--to", "amqp://nowhere/q"]

    assert "unauthorized" in run(*ends, "--dry-run", status=1).output


@pytest.mark.parametrize("protocol", ["0-9-1", "1.0"])
def test_dry_run_finds_foreign_user_id_within_one_protocol(server: Server, protocol: str) -> None:
    """As migrate-check does: the target would refuse it."""
    broker = BasicBroker("from")
    for user in (None, "u", "somebody"):
        broker.queues["from"].append(stored(BasicMessage(BasicProperties(user_id=user))))
        octets = None if user is None else user.encode()
        server.publish("c", Message(b"x", properties=Properties(user_id=octets)))
    with running(broker):
        source, target = broker.url("queue=from"), "amqp091://u:p@nowhere/?queue=q"
        if protocol == "1.0":
            source, target = f"{server.url}/c", "amqp://u:p@nowhere/q"

        done = run("--from", source, "--to", target, "--dry-run", "--idle", "0.5")

    assert "3 messages read and returned; 1 of 3 would lose data" in done.output
    assert (
        "1 message cannot be sent: properties.user-id: refused: the user-id is not the "
        "connection's user" in done.output
    )


def test_management_password_is_hidden_and_warned_about_without_tls(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setproctitle = pytest.importorskip("setproctitle")
    titles: list[str] = []
    monkeypatch.setattr(setproctitle, "setproctitle", titles.append)
    at = "http://u:s3%2Fcret@h:15672"
    monkeypatch.setattr("sys.argv", ["amqp10msg", "bridge", "--management", at])
    spec = RouteSpec("amqp091://i/?queue=a", "file:x", RouteOptions(management=at))

    hide_credentials("bridge", [spec.source], apis_of(spec))

    assert ["amqp10msg bridge amqp091://i:5672/?queue=a http://h:15672"] == titles
    assert "http://h:15672: the password is sent unencrypted" in capsys.readouterr().err


# What people see while it runs.


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_status_line_fits_and_shows_the_recent_rate(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amqp10msg.app.cli._live._width", lambda: columns)
    clock = iter([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    line = LiveLine(lambda: next(clock))
    one = Statistics(lag=7_000, in_flight=400, waiting=3, state="running")
    one.lose("headers['a']", "dropped")
    one.lose("headers['b']", "carried")
    for taken in (100, 1_000, 2_000, 3_000):
        one.accepted = taken
        line.show({"a": one})
    one.state = "target is away"
    line.show({"a": one, "b": Statistics()})

    lines = capsys.readouterr().err.split("\r\x1b[K")[1:]
    assert all(len(text) < columns for text in lines)
    whole = "3,000 moved, 967/s, 400 in flight, 7,000 remaining, 3 waiting, 1 dropped"
    assert whole.startswith(lines[3].removesuffix("…"))
    # Of the last seconds, in which there was less.
    assert "starting, target is away: 3,000 moved, 667/s".startswith(lines[4][:40].rstrip("…"))


def test_log_lines_erase_the_status_line() -> None:
    record = logging.makeLogRecord({"msg": "target-lost", "levelname": "WARNING"})

    assert log_lines(live=True).format(record).startswith("\r\x1b[K2")
    assert log_lines(live=False).format(record).endswith(" WARNING target-lost")


def test_rate_covers_only_the_time_with_messages(server: Server) -> None:
    ends = ["--from", f"{server.url}/a", "--to", f"{server.url}/b"]

    run(*ends, "--until-empty", "--idle", "1", "--report", "r.json")

    (route,) = json.loads(Path("r.json").read_text())["routes"]
    assert 0 < route["busy"] < route["seconds"] - 0.5
    rounded = 0.0006 * route["rate"]  # of busy, to milliseconds
    assert 10 == pytest.approx(route["rate"] * route["busy"], abs=rounded)


def test_failure_of_one_of_several_routes_is_logged(server: Server) -> None:
    Path("routes.toml").write_text(
        f"""
        [defaults]
        idle = 0.2
        to = "{server.url}/b"
        [[route]]
        name = "good"
        from = "{server.url}/a"
        [[route]]
        name = "bad"
        from = "amqp://u:h1dd3n@127.0.0.1:{server.port}/a"
        """
    )

    done = run("--config", "routes.toml", "--log", "json", status=1)

    events = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert ["bad"] == [one["route"] for one in events if one["event"] == "route-failed"]
    assert 10 == server.counts("b").available


# How it ended.


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("more, status", [([], 5), (["--accept-quarantine"], 0)])
def test_quarantined_messages_have_their_own_exit_status(
    server: Server, more: list[str], status: int
) -> None:
    server.publish("a", Message(b"x" * 1900))
    with Server(max_message_size=1000, accept_durable=True) as small:
        ends = ["--from", f"{server.url}/a", "--to", f"{small.url}/b"]

        done = run(*ends, "--until-empty", "--idle", "0.2", *more, status=status)

    assert "a -> b: 1 message in quarantine: too-large" in done.output
    assert "left at the source" not in done.output


def test_remaining_messages_have_their_own_exit_status(server: Server) -> None:
    ends = ["--from", f"{server.url}/a", "--to", f"{server.url}/b"]

    done = run(*ends, "--until-empty", "--idle", "0.2", "--filter", "JMSType = '1'", status=3)

    assert "a -> b: 9 messages left at the source" in done.output.splitlines()
    assert (9, 1) == (server.counts("a").available, server.counts("b").available)


@pytest.mark.parametrize("end", ["--from", "--to"])
def test_unreachable_broker_ends_a_bounded_bridge(server: Server, end: str) -> None:
    nowhere = f"amqp://127.0.0.1:{closed_port()}/x"
    other = {"--from": "--to", "--to": "--from"}[end]
    ends = [end, nowhere, other, f"{server.url}/a"]

    done = run(*ends, "--until-empty", "--connect-timeout", "0.5", status=1)

    assert f"{nowhere}: not reached within 0.5 s (" in done.output.splitlines()[-1]
    assert 10 == server.counts("a").available


def test_until_length_moves_the_messages_present_at_the_start(server: Server) -> None:
    ends = ["--from", f"{server.url}/a", "--to", f"{server.url}/b"]

    done = run(*ends, "--until-length", "--log", "json")

    events = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert [10] == [one["messages"] for one in events if one["event"] == "source-counted"]
    assert (0, 10) == (server.counts("a").available, server.counts("b").available)


def test_unbounded_bridge_retries_an_unreachable_broker() -> None:
    assert (None, 60.0, 60.0, 60.0, 5.0) == tuple(
        RouteOptions(**given).reach
        for given in (
            {},
            {"idle": 1.0},
            {"until_length": True},
            {"max_messages": 1},
            {"connect_timeout": 5.0},
        )
    )


def test_dry_run_does_not_count_broker_annotations(tmp_path: Path) -> None:
    marks = {"x-routing-key": "q", "x-exchange": "e"}
    grouped = Properties(group_id="g", reply_to="/queues/r")
    messages = [
        Message(b"x", message_annotations=marks),
        Message(b"x", message_annotations=marks, properties=grouped),
        Message(b"x", message_annotations=marks, properties=Properties(to="there")),
    ]
    source, report = tmp_path / "in.jsonl", tmp_path / "r.json"
    lines = [json.dumps({"raw": message.encode().hex()}) + "\n" for message in messages]
    source.write_text("".join(lines))
    ends = ["--from", f"file:{source}?protocol=1.0", "--to", "amqp091://nowhere/?queue=q"]
    reports = ["--report", str(report), "--report", str(report.with_suffix(".html"))]
    how = ["--profile", "rabbitmq-4.3", "--dry-run", "--idle", "0.3"]
    done = run(*ends, *how, *reports)

    assert "3 messages read and returned; 1 of 3 would lose data" in done.output
    (row,) = json.loads(report.read_text())["queues"]
    assert ["properties.to"] == [loss["property"] for loss in row["losses"]]
    assert {3} == {mark["messages"] for mark in row["broker_marks"]}
    assert {"message-annotations['x-exchange']", "message-annotations['x-routing-key']"} == {
        mark["property"] for mark in row["broker_marks"]
    }
    assert [] == row["carried"]
    assert {("properties.group-id", "renamed"), ("properties.reply-to", "renamed")} == {
        (change["property"], change["rule"]) for change in row["changed"]
    }
    page = report.with_suffix(".html").read_text()
    assert "Marks of the broker" in page
    assert "What is kept in the residual alone" not in page


def test_dry_run_lists_what_the_residual_keeps(tmp_path: Path) -> None:
    source, report = tmp_path / "in.jsonl", tmp_path / "r.json"
    message = Message(b"x", properties=Properties(to="there", group_id="g"))
    source.write_text(json.dumps({"raw": message.encode().hex()}) + "\n")
    ends = ["--from", f"file:{source}?protocol=1.0", "--to", "amqp091://nowhere/?queue=q"]
    done = run(*ends, "--dry-run", "--idle", "0.3", "--report", str(report))

    assert "1 message read and returned; none would lose data" in done.output
    (row,) = json.loads(report.read_text())["queues"]
    assert ["properties.group-id", "properties.to"] == sorted(x["property"] for x in row["carried"])
    assert [] == row["changed"]
