"""The test suites of other projects that `amqp10msg serve` is tested with: one entry each."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from pathlib import Path

import attrs
from suite_results import Outcomes, read_go, read_junit

#: Name and password of the user that RabbitMQ's clients log in with.
USERS = "guest:guest\n"


@attrs.frozen(kw_only=True)
class Suite:
    """A suite, how it is recognised, and how it is run against the server.

    The texts of `serve`, `command` and `environment` may contain ``{port}`` and ``{url}`` of the
    server, ``{results}`` for the file that `read` reads, ``{users}`` for a file with `USERS`, and
    ``{suites}`` for the folder of this tool.

    Attributes:
        name: its key in the files of known differences and of counts.
        title: how the documentation calls it.
        marker: a file of the checkout, and a text in it, by which the checkout is recognised.
        version: a file of the checkout, and a pattern whose first group is the version.
        folder: where `command` runs, relative to the checkout.
        serve: options of ``amqp10msg serve``.
        port: where the suite expects its broker; 0 if it can be told.
        probe: a command that succeeds if the suite can run.
        install: what to do if `probe` fails, for people.
        command: runs the tests; the first word may be relative to the checkout.
        output: whether the results are what `command` writes to standard output.
        failed_status: the exit statuses of `command` after it ran all tests and some failed. It
            exits with 0 if none failed; any other status means that it did not run all tests.
        environment: variables of `command`.
        seconds: when to end the suite.
        read: reads the results.
    """

    name: str
    title: str
    marker: tuple[str, str]
    version: tuple[str, str]
    folder: str = "."
    serve: tuple[str, ...] = ()
    port: int = 0
    probe: tuple[str, ...]
    install: str
    command: tuple[str, ...]
    output: bool = False
    failed_status: Container[int] = (1,)
    environment: Mapping[str, str] = attrs.field(factory=dict)
    seconds: int = 1_800
    read: Callable[[Path], Outcomes] = read_junit

    def is_in(self, folder: Path) -> bool:
        """Whether a folder is a checkout of this suite's project."""
        path, text = self.marker
        file = folder / path
        return file.is_file() and text in file.read_text(encoding="utf-8", errors="replace")

    def ran_all(self, status: int, outcomes: Outcomes) -> bool:
        """Whether the exit status of `command` says that it ran all tests, with these outcomes."""
        if "failed" in outcomes.values():
            return status in self.failed_status
        return status == 0

    def version_of(self, checkout: Path) -> str:
        """Return the version of a checkout, or ``unknown``."""
        path, pattern = self.version
        file = checkout / path
        text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
        match = re.search(pattern, text, re.MULTILINE)
        return match[1] if match else "unknown"


#: A test that waits for ever ends its process, and pytest-xdist starts another one: what it left
#: in the process made later tests fail.
_PYTEST = (
    *(".venv/bin/python", "-m", "pytest", "-q", "--tb", "native", "-n", "1"),
    *("--timeout", "20", "--timeout-method", "thread", "--junitxml", "{results}"),
)


def _pip(packages: str) -> str:
    return f"python3 -m venv .venv && .venv/bin/pip install {packages}"


SUITES = (
    Suite(
        name="rhea",
        title="rhea, the examples with a broker",
        marker=("examples/test_examples.js", "brokered examples"),
        version=("package.json", r'"version": "(.+)"'),
        serve=("--topic", "topic://PRICE.STOCK.NYSE.RHT"),
        port=5672,
        probe=("node_modules/.bin/mocha", "--version"),
        install="npm install --ignore-scripts && npx require-self",
        command=(
            *("node_modules/.bin/mocha", "--grep", "brokered examples", "--timeout", "20000"),
            *("--reporter", "xunit", "--reporter-option", "output={results}"),
            "examples/test_examples.js",
        ),
        failed_status=range(1, 256),  # mocha exits with the number of failures
    ),
    Suite(
        name="go-amqp",
        title="go-amqp, the integration tests",
        marker=("go.mod", "module github.com/Azure/go-amqp"),
        version=("CHANGELOG.md", r"^## (\S+)"),
        serve=("--receiver-settles-second",),
        probe=("go", "vet", "."),
        install="Go, and the modules of go.mod",
        command=("go", "test", "-json", "-count=1", "-run", "TestIntegration", "."),
        output=True,
        environment={"AMQP_BROKER_ADDR": "{url}"},
        read=read_go,
    ),
    Suite(
        name="rabbitmq-amqp-python-client",
        title="RabbitMQ's Python client",
        marker=("rabbitmq_amqp_python_client/__init__.py", ""),
        version=("pyproject.toml", r'^version = "(.+)"'),
        serve=("--like", "rabbitmq-4", "--accept-durable", "--users", "{users}", "--anonymous"),
        port=5672,
        probe=(
            ".venv/bin/python",
            "-c",
            "import proton, pytest_asyncio, pytest_timeout, xdist, pika, jwt",
        ),
        install=_pip(
            "pytest pytest-asyncio pytest-timeout pytest-xdist pika requests pyjwt "
            "python-qpid-proton "
            "typing-extensions packaging"
        ),
        command=(*_PYTEST, "tests"),
    ),
    Suite(
        name="azure-servicebus",
        title="azure-servicebus, the live tests",
        marker=("tests/test_queues.py", "class TestServiceBusQueue"),
        version=("PKG-INFO", r"^Version: (.+)"),
        serve=("--service-bus", "--max-message-size", "262144"),  # as of Azure's tier Standard
        probe=(
            *(".venv/bin/python", "-c"),
            "import azure.servicebus, pytest_timeout, xdist, certifi",
        ),
        install=_pip("pytest pytest-timeout pytest-xdist certifi azure-servicebus==VERSION")
        + ", in a source distribution of VERSION from PyPI",
        # The modules in tools/suites/azure stand in for Azure's own, which are not on PyPI.
        # Left out: two tests in which threads share a link, so that the client may send two
        # deliveries with one delivery-id; and one that takes more than 400 s. Others sleep for
        # five minutes, hence 16 workers.
        command=(
            *(".venv/bin/pytest", "-q", "--tb", "native", "-n", "16"),
            *("--timeout", "400", "--timeout-method", "thread", "--junitxml", "{results}"),
            *("--noconftest", "-p", "servicebus_preparer", "-k"),
            "not check_uniq_corr_id and not autolockrenew_many_msgs and not large_messages_w_sleep",
            *("tests/test_queues.py", "tests/test_sessions.py", "tests/test_list_sessions.py"),
            *("tests/test_subscriptions.py", "tests/test_topic.py"),
        ),
        environment={"PYTHONPATH": "{suites}/azure", "SERVICEBUS_ADDRESS": "127.0.0.1:{port}"},
    ),
    Suite(
        name="qpid-proton",
        title="proton, the Python examples",
        marker=("python/examples/test_examples.py", "ExamplesTest"),
        version=("VERSION.txt", r"(\S+)"),
        folder="python/examples",
        serve=("--accept-durable",),
        port=5672,
        # The examples need the library of the same checkout: with python-qpid-proton 0.40, which
        # never calls on_delivery_updated, tx_send.py waits forever before its first commit.
        probe=(
            *(".venv/bin/python", "-c"),
            "import proton, pytest_timeout, xdist, tornado; proton.Disposition.TRANSACTIONAL_STATE",
        ),
        install="cmake -S ../.. -B ../../build -DBUILD_BINDINGS=python -DBUILD_TESTING=OFF && "
        "cmake --build ../../build --target pypkg_src_copied && "
        + _pip("pytest pytest-timeout pytest-xdist tornado ../../build/python"),
        command=(*_PYTEST, "test_examples.py"),
    ),
    Suite(
        name="qpid-interop-test",
        title="qpid-interop-test, its shims of proton and rhea",
        marker=("src/qit/__init__.py", ""),
        version=("pyproject.toml", r'^version = "(.+)"'),
        serve=("--accept-durable",),
        probe=(".venv/bin/python", "-c", "import qit, proton, pytest_timeout, xdist"),
        install=_pip(".") + " && (cd shims/javascript-rhea && npm install)",
        # The JMS shim is a Maven build. The tests of frame sizes need two more brokers, whose
        # max-frame-size is 4 KiB and 1 MiB.
        command=(
            *(*_PYTEST, "--shims", "python-proton,javascript-rhea", "-k", "not frame"),
            *("tests/test_types.py", "tests/test_amqp_headers.py", "tests/test_large_content.py"),
        ),
        environment={"QIT_BROKER_URL": "127.0.0.1:{port}"},
    ),
)
