"""Commands escape control characters in all texts that they print.

Messages, files, brokers and tested programs choose texts. Control characters in them could move the
cursor, forge lines of a log, or turn the direction of a line around.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    from tests.basic_broker import BasicBroker

click_testing = pytest.importorskip("click.testing")
pytest.importorskip("jinja2")

from amqp10msg import (  # noqa: E402
    Described,
    Header,
    Message,
    Properties,
    Symbol,
    UInt,
    encode_value,
)
from amqp10msg.app.cli import main  # noqa: E402
from amqp10msg.basic import BasicMessage, BasicProperties  # noqa: E402
from amqp10msg.composite import Error  # noqa: E402
from amqp10msg.interop import conformance  # noqa: E402
from amqp10msg.net.transport.frames import Close, Detach, End  # noqa: E402

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("in_a_folder")]

C0 = "".join(map(chr, range(1, 32)))
C1 = "".join(map(chr, range(0x7F, 0xA0)))
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
#: Control characters, in sequences that terminals know, and marks that end or turn lines.
HOSTILE = f"<b>[red]{C0}\x1b[2J\x1b]0;title\x07{C1}\u2028\u2029\ufeff{BIDI}end"
#: The same in ASCII, as a symbol.
HOSTILE_SYMBOL = f"x{C0}\x1b[2J\x7fend"
#: U+202E in hex: if the output has this, the command printed the text and escaped the character.
SHOWN = "202e"


def acted_on(text: str) -> list[str]:
    """Return the characters of an output, other than ends of lines, that cannot be shown."""
    return sorted({char for char in text if not char.isprintable() and char != "\n"})


def a_message() -> bytes:
    return Message(
        HOSTILE,
        header=Header(),
        properties=Properties(
            message_id=HOSTILE,
            subject=HOSTILE,
            to=HOSTILE,
            content_type=Symbol(HOSTILE_SYMBOL),
            group_id=HOSTILE,
        ),
        message_annotations={Symbol(HOSTILE_SYMBOL): HOSTILE, Symbol("x-opt-a"): [HOSTILE]},
        application_properties={HOSTILE: HOSTILE, "b": HOSTILE},
    ).encode()


def a_value() -> bytes:
    return Message(Described(Symbol(HOSTILE_SYMBOL), {HOSTILE: [HOSTILE]})).encode()


NAME = "hostile \x1b[2J\r\u202e\x9b\u2028 name"


def messages() -> str:
    """Write messages into a file whose name is hostile, too."""
    path = Path(NAME)
    path.mkdir()
    for number, octets in enumerate((a_message(), a_value(), a_message()[:-5], b"junk")):
        (path / f"{number}{NAME}.amqp").write_bytes(octets)
    return NAME


#: Arguments of a command that shows messages, their faults, or the name of their file.
OF_MESSAGES = [
    ("inspect",),
    ("inspect", "--json"),
    ("inspect", "--typed"),
    ("inspect", "--value"),
    ("validate",),
    ("validate", "--json"),
    ("validate", "--profile", "rabbitmq-4"),
    ("filter", "subject = 'a'"),
    ("filter", "subject LIKE '%end'", "--json"),
    ("convert", "--out", "typed"),
    ("convert", "--out", "plain"),
    ("convert", "--out", "jsonl"),
    ("translate", "--to", "0-9-1", "--profile", "rabbitmq-4.0", "--each"),
    ("translate", "--to", "0-9-1", "--json"),
    ("translate", "--to", "0-9-1", "--strict"),
    ("diff-profiles",),
    ("diff-profiles", "--json"),
]


@pytest.mark.parametrize("command", OF_MESSAGES, ids=" ".join)
def test_messages_and_names_of_files_are_escaped(command: tuple[str, ...]) -> None:
    done = click_testing.CliRunner().invoke(main, [*command, messages()])

    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert [] == acted_on(done.output)
    assert SHOWN in done.output.lower()


@pytest.mark.parametrize("what", ["decode", "validate", "profile", "translate"])
def test_jobs_escape_names_faults_and_losses(what: str) -> None:
    pytest.importorskip("pyarrow")
    more = ["--to", "0-9-1"] if what == "translate" else []
    done = click_testing.CliRunner().invoke(main, ["pipeline", what, *more, messages(), "out"])

    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert [] == acted_on(done.output)
    for page in Path("out").glob("*.html"):
        assert_page_is_safe(page.read_text())


def assert_page_is_safe(page: str) -> None:
    assert [] == acted_on(page)
    assert "<b>[red]" not in page


@pytest.mark.parametrize("command", [("inspect", "--html"), ("inspect", "--svg"), ("validate",)])
def test_pages_escape_texts(command: tuple[str, ...]) -> None:
    Path("one.amqp").write_bytes(a_message())
    where = "--report" if command[0] == "validate" else "-o"
    done = click_testing.CliRunner().invoke(main, [*command, "one.amqp", where, "page.html"])

    assert [] == acted_on(done.output)
    assert_page_is_safe(Path("page.html").read_text())


#: A driver that answers, complains and dies with hostile texts.
DRIVER = f"""
import json, sys
HOSTILE = {HOSTILE!r}
sys.stderr.write(HOSTILE + "\\n")
for number, line in enumerate(sys.stdin):
    asked = json.loads(line)
    if asked["do"] == "name":
        print(json.dumps({{"name": HOSTILE}}), flush=True)
    elif number % 5 == 1:
        print(json.dumps({{"refused": HOSTILE, "rule": HOSTILE}}), flush=True)
    elif number % 5 == 2:
        print("".join(HOSTILE.splitlines()), flush=True)
    elif number % 5 == 3:
        print(json.dumps({{"unsupported": HOSTILE}}), flush=True)
    elif number % 5 == 4:
        print(json.dumps({{"typed": ["string", HOSTILE]}}), flush=True)
    else:
        sys.exit("Error: " + HOSTILE)
"""


@pytest.mark.parametrize("name", ["driver.py", "\x1b[2J\u202e\x9b|d.py"])
def test_conformance_escapes_texts_of_peers(name: str) -> None:
    Path(name).write_text(DRIVER)
    command = ["conformance", "run", "--only", "Part 1, 1.6.1", "--jobs", "1", "-o", "out"]
    command += ["--peer", shlex.join([sys.executable, f"./{name}"])]
    done = click_testing.CliRunner().invoke(main, command)
    results = json.loads(Path("out/results.json").read_text())
    for peer in results["peers"]:
        for result in peer["results"]:
            result["outcome"] = "pass"
    Path("old.json").write_text(json.dumps(results))
    again = click_testing.CliRunner().invoke(main, [*command, "--diff", "old.json"])

    assert SHOWN in done.output
    assert "worse" in again.output
    for text in (
        *(done.output, again.output, conformance.summary(conformance.load(Path("old.json")))),
        *(Path("out", file).read_text() for file in ("report.md", "junit.xml")),
    ):
        assert [] == acted_on(text)
    assert_page_is_safe(Path("out/index.html").read_text())
    assert "\n<b>" not in Path("out/report.md").read_text()


@pytest.fixture
def broker() -> Iterator[BasicBroker]:
    pytest.importorskip("pika")
    from tests.basic_broker import BasicBroker, running  # noqa: PLC0415  (an extra)
    from tests.bridging import stored  # noqa: PLC0415

    made = BasicBroker("from", "to", HOSTILE)
    for name in ("from", HOSTILE):
        made.queues[name].append(
            stored(BasicMessage(BasicProperties(type=HOSTILE, message_id=HOSTILE), b"x"))
        )
    with running(made):
        yield made


def _refuse(broker: BasicBroker) -> None:
    broker.credentials, broker.refusal = "other:other", HOSTILE


#: What a broker does, and a command that shows it.
OF_BROKERS: dict[
    str, tuple[Callable[[BasicBroker], object], Callable[[BasicBroker], list[str]]]
] = {
    "refuses the user": (
        _refuse,
        lambda broker: [
            "bridge",
            "--from",
            broker.url("queue=from"),
            "--to",
            "file:x?protocol=1.0",
        ],
    ),
    "has no such queue": (
        lambda broker: broker.queues.pop("from"),
        lambda broker: [
            *("bridge", "--from", broker.url(f"queue={quote(HOSTILE + 'x')}")),
            *("--to", "file:x?protocol=1.0"),
        ],
    ),
    "has a hostile name": (
        lambda _: None,
        lambda broker: [
            *("bridge", "--from", broker.url(f"queue={quote(HOSTILE)}"), "--until-empty"),
            *("--idle", "0.1", "--to", f"file:{quote(HOSTILE[7:40])}.jsonl?protocol=0-9-1"),
        ],
    ),
    "is looked at": (
        lambda _: None,
        lambda broker: [
            *("migrate-check", broker.url(""), "--idle", "0.1", "--queue", HOSTILE),
            *("--queue", "from", "--queue", f"no {HOSTILE}"),
        ],
    ),
    "is spooled": (
        _refuse,
        lambda broker: [
            *("spool", f"amqp://guest:guest@127.0.0.1:{broker.port}/", HOSTILE, "out"),
            *("--protocol", "0-9-1", "--idle", "0.1"),
        ],
    ),
}


@pytest.mark.parametrize("case", OF_BROKERS)
def test_texts_of_brokers_are_escaped(case: str, broker: BasicBroker) -> None:
    prepare, command = OF_BROKERS[case]
    prepare(broker)
    for more in ([], ["--log", "json"]) if command(broker)[0] == "bridge" else ([],):
        done = click_testing.CliRunner().invoke(main, [*command(broker), *more])

        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        assert [] == acted_on(done.output)
        assert SHOWN in done.output.lower() or "spool" in command(broker)


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_log_of_a_server_escapes_texts_of_clients(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("proton")
    from proton.reactor import Container  # noqa: PLC0415  (an extra)
    from proton.utils import BlockingConnection  # noqa: PLC0415

    from amqp10msg.app.cli._live import events_logger  # noqa: PLC0415
    from amqp10msg.net.serve import Server  # noqa: PLC0415

    with Server(logger=events_logger(form, "amqp10msg.serve")) as server:
        container = Container()
        container.container_id = HOSTILE
        connection: Any = BlockingConnection(server.url, timeout=20.0, container=container)
        receiver = connection.create_receiver(HOSTILE, name=HOSTILE)
        sender = connection.create_sender(HOSTILE, name=f"sends {HOSTILE}")
        receiver.close()
        sender.close()
        connection.close()

    log = capsys.readouterr().err
    assert [] == acted_on(log)
    assert log.lower().count(SHOWN) >= 3


@pytest.mark.parametrize("what", ["inspect", "validate"])
def test_frames_with_hostile_errors_are_escaped(what: str) -> None:
    error = Error(Symbol(HOSTILE_SYMBOL), HOSTILE)
    frames = b""
    for performative in (
        Close(error),
        End(error),
        Detach(handle=UInt(0), closed=True, error=error),
    ):
        body = encode_value(performative)
        frames += (len(body) + 8).to_bytes(4, "big") + b"\2\0\0\0" + body
    Path("frames.bin").write_bytes(frames)
    done = click_testing.CliRunner().invoke(main, [what, "frames.bin"])

    assert [] == acted_on(done.output)
