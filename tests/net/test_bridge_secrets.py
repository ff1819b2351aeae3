"""What a peer says cannot act on a terminal or forge a log, and no error shows a password."""

from __future__ import annotations

import io
import json
import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

click_testing = pytest.importorskip("click.testing")
pytest.importorskip("pika")
pytest.importorskip("pyarrow")

from amqp10msg.app.cli import main  # noqa: E402
from amqp10msg.app.cli._live import log_lines  # noqa: E402
from amqp10msg.composite import Error  # noqa: E402
from amqp10msg.net import transport  # noqa: E402
from amqp10msg.net.bridge import parse_url  # noqa: E402
from amqp10msg.net.bridge.context import log_event  # noqa: E402
from amqp10msg.net.bridge.management import Management  # noqa: E402
from amqp10msg.net.ends.terms import LinkError, hide  # noqa: E402
from amqp10msg.net.ends.urls import split_url  # noqa: E402
from amqp10msg.net.serve import JsonFormatter  # noqa: E402
from tests.amqp10_broker import Broker, Peer, running  # noqa: E402
from tests.basic_broker import BasicBroker  # noqa: E402
from tests.basic_broker import running as running_basic  # noqa: E402

pytestmark = [pytest.mark.usefixtures("in_a_folder"), pytest.mark.once]

#: Clears the screen, rings the bell, goes back, turns the text around, and begins another line.
HOSTILE = "\x1b[2J\x07\x08\r\n\x7f\x85\x9b31m\u2028\u202eforged INFO route-ended route=x"


class Rude(Peer):
    """A broker that closes each connection with a hostile description."""

    def __init__(self, broker: Broker) -> None:
        opens = transport.Open(container_id="rude", properties={"product": HOSTILE})
        super().__init__(broker, opens, {"me": "secret"})

    def on_begin(self, session: transport.Session) -> None:
        session.begin()
        self._engine.close(Error("amqp:internal-error", HOSTILE))
        self.flush()


def is_clean(text: str) -> bool:
    return all(char == "\n" or char.isprintable() for char in text)


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("protocol", ["1.0", "0-9-1"])
def test_broker_errors_are_escaped_in_the_log(form: str, protocol: str) -> None:
    rude: Any = Broker(Rude)
    old = BasicBroker()
    old.credentials, old.refusal = "nobody:knows", HOSTILE
    with running(rude), running_basic(old):
        source = f"{rude.url}/q" if protocol == "1.0" else old.url("queue=q")
        command = ["bridge", "--from", source, "--to", "file:out.jsonl", "--until-empty"]
        command += ["--connect-timeout", "0.5", "--log", form]
        done = click_testing.CliRunner().invoke(main, command)

    assert 1 == done.exit_code, done.output
    assert "forged" in done.output
    assert is_clean(done.output), ascii(done.output)
    assert not [line for line in done.output.splitlines() if line.startswith("forged")]
    assert "secret" not in done.output


@given(st.text(), st.booleans())
def test_any_event_is_one_printable_line(text: str, live: bool) -> None:
    out = io.StringIO()
    for formatter in (log_lines(live=live), JsonFormatter()):
        logger = logging.Logger("any", logging.INFO)  # noqa: LOG001  (no global state)
        handler = logging.StreamHandler(out)
        handler.setFormatter(formatter)
        logger.addHandler(handler)
        log_event(logger, "event", logging.INFO, why=text)
        try:
            raise ValueError(text)
        except ValueError:
            logger.exception("fault of %s", text)
    shown = out.getvalue().replace("\r\x1b[K", "")
    assert is_clean(shown), ascii(shown)
    assert 2 == sum(line.startswith("{") for line in shown.splitlines())


@given(st.text())
def test_an_error_of_a_link_is_printable(text: str) -> None:
    error = LinkError(text, sent_by_peer=True)

    assert str(error).isprintable()
    assert error.sent_by_peer
    assert str(error) == str(error.as_shared()) == str(error.without("x" * 99))


@pytest.mark.parametrize(
    "text, secret, shown",
    [
        ("nothing listens on that port", "a", "nothing listens on that port"),
        ("no user me with password a.", "a", "no user me with password …."),
        ("sent \0me\0s3cr+t", "s3cr+t", "sent \0me\0…"),
        ("no secret", None, "no secret"),
    ],
)
def test_password_is_hidden_where_it_stands_alone(text: str, secret: Any, shown: str) -> None:
    assert shown == hide(text, secret)


def test_an_event_is_printable_for_every_handler(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log_event(logging.getLogger("amqp10msg.bridge"), "lost", logging.INFO, why=HOSTILE)

    (record,) = caplog.records
    assert is_clean(record.getMessage())
    assert HOSTILE == record.fields["why"]  # type: ignore[attr-defined]


WRONG = [
    "{}://u:hunter2\u2100@h/q",
    "{}://u:[hunter2]@h/q",
    "{}://u:[hunter2@h/q",
    "{}://u:hunter2]@h/q",
    "{}://u:hunter2",
    "{}://u:hunter2/x@h/q",
    "{}://u:hunter2?x@h/q",
    "{}://[::1:hunter2/q",
    "{}://u:p@h:hunter2/q",
    "{}://u:p@hunter2..h/q",
    "{}://u:2000/hunter2@h/q",
    "{}://u:1?hunter2=1&hunter2=2@h/q",
    "{}://u:1?hunter2@h/q",
    "{}://u:a@b/hunter2@h/q",
    "{}:/u:hunter2@h/q",
]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("command", ["bridge", "bridge to", "check", "spool", "spool 0-9-1"])
def test_invalid_url_is_not_printed(wrong: str, command: str) -> None:
    amqp = wrong.format("amqp")
    management = ["--management", wrong.format("http"), "--queue", "q"]
    arguments = {
        "bridge": ["bridge", "--from", amqp, "--to", "file:x"],
        "bridge to": ["bridge", "--from", "file:x", "--to", wrong.format("amqps")],
        "check": ["migrate-check", "amqp091://127.0.0.1:1", *management],
        "spool": ["spool", amqp, "q", "landing"],
        "spool 0-9-1": ["spool", "--protocol", "0-9-1", amqp, "q", "landing"],
    }[command]
    done = click_testing.CliRunner().invoke(main, arguments)

    assert 2 == done.exit_code, done.output
    assert isinstance(done.exception, SystemExit), done.exception
    assert "hunter2" not in done.output


@pytest.mark.parametrize(
    "url", ["amqp:u:hunter2@h", "u:hunter2@h", "amqp:hunter2", "amqp:/hunter2"]
)
def test_a_url_without_slashes_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ValueError, match="URL") as caught:
        parse_url(url)

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "query",
    [
        "heartbeat=x",
        "heartbeat=70000",
        "connection_attempts=0",
        "socket_timeout=5",
        "password=hunter2",
        "ssl_options={'password': 'hunter2'}",
        "connection_timeout=0",
        "connection_timeout=" + "9" * 5_000,
    ],
)
def test_wrong_parameters_of_a_spooled_url_are_one_line(query: str) -> None:
    arguments = ["spool", "--protocol", "0-9-1", f"amqp://127.0.0.1:1/%2f?{query}", "q", "landing"]
    done = click_testing.CliRunner().invoke(main, arguments)

    assert isinstance(done.exception, SystemExit), done.exception
    assert 2 == done.exit_code, done.output
    assert query.partition("=")[0] in done.output
    assert "hunter2" not in done.output


@given(st.text(max_size=20), st.sampled_from(["amqp", "amqp091", "amqps", "http", "file"]))
def test_url_errors_contain_no_part_of_the_password(password: str, scheme: str) -> None:
    secret = f"hunter2{password}hunter2"
    text = f"{scheme}://u:{secret}@h/q"
    endpoint = parse_url("amqp091://h/?queue=q")
    for read in (split_url, parse_url, lambda one: Management(one, endpoint)):
        errors: list[ValueError] = []
        try:
            read(text)
        except ValueError as error:
            errors.append(error)
        assert not [error for error in errors if "hunter2" in str(error)]
        assert all(error.__context__ is None or error.__suppress_context__ for error in errors)


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that accepts connections and closes them."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.05)
        ended = threading.Event()

        def accept() -> None:
            while not ended.is_set():
                try:
                    listening.accept()[0].close()
                except TimeoutError:
                    continue

        thread = threading.Thread(target=accept)
        thread.start()
        yield listening.getsockname()[1]
        ended.set()
        thread.join()


def test_report_contains_no_password(silent: int) -> None:
    source = f"amqp://u:hunter2@127.0.0.1:{silent}/q"
    command = ["bridge", "--from", source, "--to", "file:out.jsonl", "--until-empty"]
    command += ["--connect-timeout", "0.2", "--report", "report.json"]
    done = click_testing.CliRunner().invoke(main, command)

    assert 1 == done.exit_code
    with open("report.json") as file:  # noqa: PTH123
        report = file.read()
    assert json.loads(report)["routes"]
    assert "hunter2" not in done.output + report
