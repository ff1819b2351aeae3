"""The drivers that come along, in this environment where it has what they drive."""

from __future__ import annotations

import os
import shutil
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs
import pytest

from amqp10msg.interop import conformance, corpus
from amqp10msg.interop.conformance.peers import environment_of
from amqp10msg.interop.corpus import Case
from tests.samples import corpus_cases

# What each of them reads, keeps and writes; and what it must refuse.
VALUES = ("boolean-octet-true", "smallulong-255", "smallint-minus-1", "uuid-version-4", "list0")
COMPOSITES = ("accepted", "rejected-error-full", "modified-octets", "source-full", "target-full")
MESSAGES = ("data", "value-string", "sequence")
TABLES = (
    *("basic-table-t-0", "basic-table-i-4", "basic-table-upper-s-1", "basic-table-upper-v-0"),
    *("basic-table-upper-f-1", "basic-table-upper-a-1", "basic-table-of-10"),
)
PROPERTIES = ("basic-properties-none", "basic-properties-content-type-2", "basic-properties-all")
DECISIONS = ("decisions-selector-true-0", "decisions-resumption-1")
CASES = {
    "this-library": (*VALUES, *COMPOSITES, *MESSAGES, *TABLES, *PROPERTIES, *DECISIONS),
    "proton": (*VALUES, *COMPOSITES),
    "proton-message": ("data", "value-string"),
    "pyamqp": (*VALUES, *COMPOSITES, "data", "value-string"),
    "rhea": (*VALUES, *COMPOSITES, *MESSAGES),
    "pika": (*TABLES, *PROPERTIES),
    "pamqp": (*TABLES, *PROPERTIES),
    "aiormq": (*TABLES, *PROPERTIES),
    "amqplib": (*TABLES, *PROPERTIES),
}
MODULES = {"proton-message": "proton", "pyamqp": "azure.servicebus", "this-library": "amqp10msg"}
REFUSED = {"value": "truncated-uint", "field-table": "basic-table-b-cut-7"}


@cache
def shipped() -> dict[str, Case]:
    return {one.id: one for one in corpus_cases()}


def is_here(name: str) -> bool:
    if conformance.PEERS[name].language == "node":
        places = [Path("node_modules"), *map(Path, os.environ.get("NODE_PATH", "").split(":"))]
        return shutil.which("node") is not None and any((one / name).is_dir() for one in places)
    module = MODULES.get(name, name)
    return find_spec(module.partition(".")[0]) is not None and find_spec(module) is not None


@pytest.mark.parametrize("name", CASES)
def test_driver_reports_the_behaviour_of_its_library(name: str) -> None:
    if not is_here(name):
        pytest.skip(f"{name} is not installed in this environment")
    names = [one for one in CASES[name] if one in shipped()]
    assert [*CASES[name]] == names
    kinds = {shipped()[one].kind for one in names}
    refused = [one for kind, one in REFUSED.items() if kind in kinds]
    peer = attrs.evolve(conformance.PEERS[name], requires=())

    found = conformance.run(peer, [shipped()[one] for one in [*names, *refused]])

    assert ["pass"] * len(found.results) == [one.outcome for one in found.results], found.results
    for one in found.results:
        if one.case in refused:
            assert one.facets["refused"], one
        elif one.kind not in corpus.QUESTION_KINDS:
            assert one.facets["read"], one
            assert one.facets["written"], one


def test_the_template_is_a_driver() -> None:
    drivers = Path(corpus.__file__).parent / "drivers"
    peer = conformance.find_peer(str(drivers / "template.py"))

    found = conformance.run(peer, [shipped()[one] for one in ("boolean-true", "uint0", "accepted")])

    assert "my implementation 1.0" == found.name
    assert ["pass", "fail", "skip"] == [one.outcome for one in found.results]
    assert "refused: ValueError: constructor 0x43 is not known" == found.results[1].reason
    assert 50 >= len((drivers / "template.py").read_text(encoding="utf-8").splitlines())


def driver(folder: Path, *methods: str, attributes: str = "name, refusals = 'mine', ()") -> str:
    path = folder / "mine.py"
    body = [attributes, *methods]
    path.write_text("class Driver:\n" + "".join(f"    {line}\n" for line in body))
    return str(path)


DECODE = "def decode(self, kind, data): return ['boolean', True]"


@pytest.mark.parametrize(
    "methods, attributes, reason",
    [
        (["def decoed(self, kind, data): return data"], None,
         "Driver has a method decoed, which is never called: rename it to decode"),
        ([DECODE, "def valdate(self, data, profile): return []"], None,
         "Driver has a method valdate, which is never called: rename it to validate"),
        ([], None, "Driver has none of the methods decode, encode, again, validate, answer"),
        ([DECODE], "refusals = ()", "Driver has no attribute name, which must be a str"),
        ([DECODE], "name = 'mine'",
         "Driver has no attribute refusals, which must be a tuple of exception classes"),
        ([DECODE], "name, refusals = 'mine', (ValueError,)\n    refusals += ('x',)",
         "Driver has no attribute refusals, which must be a tuple of exception classes"),
    ],
)  # fmt: skip
def test_a_driver_with_another_interface_is_refused(
    methods: list[str], attributes: str | None, reason: str, tmp_path: Path
) -> None:
    more = {} if attributes is None else {"attributes": attributes}
    peer = conformance.find_peer(driver(tmp_path, *methods, **more))

    with pytest.raises(conformance.PeerError) as error:
        conformance.run(peer, [shipped()["boolean-true"]])

    assert reason in "\n".join([str(error.value), *error.value.__notes__])


@pytest.mark.parametrize(
    "methods, reason",
    [
        (["def decode(self, kind, data): return data"],
         "decode of the driver returned bytes, not JSON"),
        ([DECODE, "def again(self, kind, data): return 5"],
         "again of the driver returned int, not bytes"),
    ],
)  # fmt: skip
def test_results_of_another_type_fail_the_case(
    methods: list[str], reason: str, tmp_path: Path
) -> None:
    peer = conformance.find_peer(driver(tmp_path, *methods))

    (result,) = conformance.run(peer, [shipped()["boolean-true"]]).results

    assert reason in result.reason


def test_a_driver_may_print(tmp_path: Path) -> None:
    peer = conformance.find_peer(
        driver(tmp_path, DECODE, "print('defined')", "def helper(self): print('called')")
    )

    (result,) = conformance.run(peer, [shipped()["boolean-true"]]).results

    assert "pass" == result.outcome


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


@needs_node
def test_the_template_in_javascript_is_a_driver(tmp_path: Path) -> None:
    drivers = Path(corpus.__file__).parent / "drivers"
    shutil.copy(drivers / "template.js", tmp_path / "mine.js")  # as a user has it: alone
    peer = conformance.find_peer(str(tmp_path / "mine.js"))

    found = conformance.run(peer, [shipped()[one] for one in ("boolean-true", "uint0", "accepted")])

    assert "my implementation 1.0" == found.name
    assert ["pass", "fail", "skip"] == [one.outcome for one in found.results]
    assert "refused: RangeError: constructor 67 is not known" == found.results[1].reason
    assert "composite is not supported" == found.results[2].reason


# The templates for messages, as they are and with a small implementation in place of the example.

MESSAGE_TEMPLATES = ["template_message.py", "template_message.js", "template_program.py"]
#: Implementations that replace `read` and `write` of a template, and the place for them.
SMALL = {
    "template_message.py": """
import attrs
from amqp10msg import DecodeError, Message, scan

def read(data):
    message = Message.decode(data)
    sections, number_of_body = [], 0
    for part in scan(data):
        if part.name in ("header", "properties"):
            composite = getattr(message, part.name)
            content = list(attrs.astuple(composite, recurse=False))
        elif part.name in ("data", "amqp-sequence", "amqp-value"):
            bodies = message.body if isinstance(message.body, list) else [message.body]
            (content,) = attrs.astuple(bodies[number_of_body], recurse=False)
            number_of_body += 1
        else:
            content = dict(getattr(message, part.name.replace("-", "_")))
        sections.append((part.name, content))
    return sections

Driver.refusals = (DecodeError,)
Driver.again = lambda self, kind, data: Message.decode(data).encode()
""",
    "template_message.js": """
class Refused extends Error {}
REFUSALS[0] = Refused;
const SECTIONS = ["header", "delivery-annotations", "message-annotations", "properties",
  "application-properties", "data", "amqp-sequence", "amqp-value", "footer"];
read = (data) => {
  let at = 0;
  const need = (size) => {
    if (at + size > data.length) throw new Refused("truncated");
    at += size;
    return data.subarray(at - size, at);
  };
  const items = (count) => Array.from({ length: count }, value);
  const map = (count) => new Map(Array.from({ length: count / 2 }, () => [value(), value()]));
  function value() {
    const code = need(1)[0];
    const sized = () => need(need(1)[0]);
    switch (code) {
      case 0x40: return null;
      case 0x41: return true;
      case 0x42: return false;
      case 0x43: case 0x44: return 0;
      case 0x45: return [];
      case 0x50: case 0x52: case 0x53: return need(1)[0];
      case 0x54: case 0x55: return need(1).readInt8();
      case 0x70: return need(4).readUInt32BE();
      case 0x71: return need(4).readInt32BE();
      case 0x80: return need(8).readBigUInt64BE();
      case 0x82: return need(8).readDoubleBE();
      case 0x83: return new Date(Number(need(8).readBigInt64BE()));
      case 0xa0: return Buffer.from(sized());
      case 0xa1: case 0xa3: return sized().toString();
      case 0xc0: return need(1), items(need(1)[0]);
      case 0xc1: return need(1), map(need(1)[0]);
      default: throw new Refused(`code ${code} is not known`);
    }
  }
  const sections = [];
  while (at < data.length) {
    if (need(1)[0] !== 0) throw new Refused("not a section");
    const name = SECTIONS[value() - 0x70];
    if (!name) throw new Refused("an unknown section");
    sections.push([name, value()]);
  }
  return sections;
};
write = (sections) => { throw new Unsupported("writing"); };
""",
    "template_program.py": """
from amqp10msg.interop.corpus import Amqp10msg, RefusedError

def read(data):
    return Amqp10msg().decode("message", data)

def write(sections):
    return Amqp10msg().encode("message", sections)

""",
}
PASSED_BY_ALL = (
    *("data", "value-string", "sequence", "properties-full", "header-full", "all-sections"),
    *("application-properties-unicode-key", "message-annotations", "not-a-section"),
)


def peer_of(path: Path) -> Any:
    is_program = path.name == "template_program.py"
    return conformance.find_peer(f"{sys.executable} {path}" if is_program else str(path))


@pytest.mark.parametrize("name", MESSAGE_TEMPLATES)
def test_template_for_messages_is_a_driver(name: str, tmp_path: Path) -> None:
    if name.endswith(".js") and shutil.which("node") is None:
        pytest.skip("node is not installed")
    shutil.copy(Path(corpus.__file__).parent / "drivers" / name, tmp_path)  # as a user has it
    names = ("data", "value-string", "not-a-section", "boolean-true")

    found = conformance.run(peer_of(tmp_path / name), [shipped()[one] for one in names])

    assert found.name in ("my implementation 1.0", "my program 1.0")
    assert ["pass", "fail", "pass", "skip"] == [one.outcome for one in found.results]
    first, second, *_ = found.results
    # Families are no types, so only the program, which returns sections, may have others.
    assert {"read", "kept", "typed", "written", "identical"} == set(first.facets)
    assert second.reason.endswith("only a data section of up to 255 bytes can be read")


@pytest.mark.parametrize("name", MESSAGE_TEMPLATES)
def test_template_for_messages_with_an_implementation(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.endswith(".js") and shutil.which("node") is None:
        pytest.skip("node is not installed")
    monkeypatch.setenv("PYTHONPATH", str(Path(corpus.__file__).parents[3]))
    text = (Path(corpus.__file__).parent / "drivers" / name).read_text(encoding="utf-8")
    end = 'if __name__ == "__main__":' if name == "template_program.py" else ""
    head, _, tail = text.partition(end) if end else (text, "", "")
    (tmp_path / name).write_text(head + SMALL[name] + end + tail, encoding="utf-8")

    found = conformance.run(peer_of(tmp_path / name), [shipped()[one] for one in PASSED_BY_ALL])

    assert dict.fromkeys(PASSED_BY_ALL, "pass") == {
        one.case: one.outcome for one in found.results
    }, [one.reason for one in found.results]
    assert all(one.facets.get("kept", True) for one in found.results)
    assert len(PASSED_BY_ALL) - 1 == sum("kept" in one.facets for one in found.results)


@needs_node
def test_methods_get_the_same_arguments_in_javascript_as_in_python(tmp_path: Path) -> None:
    node, drivers = shutil.which("node"), Path(corpus.__file__).parent / "drivers"
    assert node is not None
    (tmp_path / "shown.js").write_text(
        "module.exports = () => ({ name: 'shown',\n"
        "  validate(data, profile) { return [[`${data.toString('hex')} ${profile}`, '', 0]]; },\n"
        "  answer(kind, data, given) { return [kind, data.toString('hex'), given]; } });\n"
    )
    (tmp_path / "shown.py").write_text(
        "class Driver:\n"
        "    name, refusals = 'shown', ()\n"
        "    def validate(self, data, profile):\n"
        "        return [[f'{data.hex()} {profile}', '', 0]]\n"
        "    def answer(self, kind, data, given):\n"
        "        return [kind, data.hex(), given]\n"
    )
    commands = {
        "javascript": [node, str(drivers / "lines.js"), str(tmp_path / "shown.js")],
        "python": [sys.executable, str(drivers / "lines.py"), str(tmp_path / "shown.py")],
    }
    for command in commands.values():
        with corpus.Program(command) as program:
            assert [["4142 oasis", "", 0]] == [
                list(one) for one in program.validate(b"AB", "oasis")
            ]
            asked = {"do": "answer", "kind": "settlement", "data": "41", "given": {"a": 1}}
            assert ["settlement", "41", {"a": 1}] == program.ask(asked)["answer"]


@needs_node
@pytest.mark.parametrize(
    "thrown, outcome",
    [
        ("new RangeError('no')", "pass"),
        ("new TypeError('data.foo is not a function')", "error"),
        ("'text'", "error"),
        ("undefined", "error"),
        ("new Unsupported('not here')", "skip"),
        ("new Inner.Unsupported('not here')", "skip"),
    ],
)
def test_only_errors_that_refuse_are_refusals_in_javascript(
    tmp_path: Path, thrown: str, outcome: str
) -> None:
    driver = tmp_path / "thrower.js"
    driver.write_text(
        "class Unsupported extends Error {}\nconst Inner = { Unsupported };\n"
        "module.exports = () => ({ name: 'thrower', refusals: [RangeError],\n"
        f"  decode() {{ throw {thrown}; }} }});\n"
    )

    found = conformance.run(conformance.find_peer(str(driver)), [shipped()["truncated-uint"]])

    assert [outcome] == [one.outcome for one in found.results], found.results


@pytest.mark.parametrize("language", ["python", "node"])
def test_environments_may_be_a_relative_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    """A program runs in a folder of its own: what starts it must be found from there, too."""
    if language == "node" and shutil.which("node") is None:
        pytest.skip("node is not installed")
    monkeypatch.chdir(tmp_path)
    name = "template.py" if language == "python" else "template.js"
    peer = conformance.Peer("mine", name, requires=("nothing",))
    (home := environment_of(peer, Path("apart"))).mkdir(parents=True)
    if language == "python":
        (home / "bin").mkdir()
        (home / "bin" / "python").symlink_to(sys.executable)
    (home / ".complete").touch()

    found = conformance.run(peer, [shipped()["boolean-true"]], environments=Path("apart"))

    assert ["pass"] == [one.outcome for one in found.results]


def test_every_peer_has_a_driver_here() -> None:
    drivers = Path(corpus.__file__).parent / "drivers"

    assert all((drivers / peer.driver).is_file() for peer in conformance.PEERS.values())
    # The one on top of proton is installed apart, since it brings its own copy.
    assert {*CASES, "rabbitmq-client"} == conformance.PEERS.keys()
