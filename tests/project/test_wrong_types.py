"""Whether public functions refuse arguments of a wrong type with an error that helps.

Each parameter of each public function gets an object of a class that no function knows, while the
other parameters get sound values, chosen by their annotations. The function may accept the object
(a container may hold anything), or raise TypeError, an error of this package, or a ValueError
that shows the object. An AttributeError, a KeyError or the like is a mistake of the function.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import functools
import inspect
import io
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amqp10msg import AmqpError, DecodeError, Header, Limits, Message, ULong, basic, delivery, scan
from amqp10msg.basic import BasicMessage, BasicProperties, FieldTable, classes
from amqp10msg.delivery import Received, Rejected, filters, resume
from amqp10msg.delivery.node import DeadLetter, Memory, MemoryStore, Stored
from amqp10msg.interop import conformance, corpus, jms
from amqp10msg.message.batch import Batch
from amqp10msg.notation import parse_tree
from amqp10msg.translate import LOSSLESS, EncodedBasic, settlement
from amqp10msg.validation import PROFILES
from amqp10msg.wire.primitives import AmqpMap, Described
from tests.delivery.nodes import node_of, take
from tests.public_api import documented_exceptions, public_callables


class Unexpected:
    """A class that no function of the package knows."""

    def __repr__(self) -> str:
        return "Unexpected()"


MESSAGE = Message("x", header=Header(durable=False))
CASE = corpus.demo_messages()[0]

#: Sound values by the annotation of a parameter.
SOUND: dict[str, Any] = {
    "str": "x",
    "Any": b"\x40",
    "object": 1,
    "int": 1,
    "bool": True,
    "bytes": b"\x40",
    "str | int": "x",
    "str | Profile": "oasis",
    "Profile": PROFILES["oasis"],
    "type": delivery.Accepted,
    "Message": MESSAGE,
    "Message | bytes": MESSAGE,
    "Message | bytes | bytearray | memoryview": MESSAGE,
    "EncodableMessage | bytes | bytearray | memoryview": MESSAGE,
    "Tree | Message | bytes | bytearray | memoryview": MESSAGE,
    "AnyMessage": MESSAGE,
    "Iterable[Message]": [MESSAGE],
    "bytes | bytearray | memoryview": MESSAGE.encode(),
    "BasicProperties": BasicProperties(),
    "BasicMessage": BasicMessage(),
    "BasicMessage | Message": BasicMessage(),
    "EncodedBasic": EncodedBasic.of(BasicMessage()),
    "ContentHeader": basic.ContentHeader(),
    "ContentHeader | BasicProperties": BasicProperties(),
    "FieldTable | Mapping[str, Any]": {},
    "ClassProperties": classes.FileProperties(),
    "ClassProperties | Transfer": classes.FileProperties(),
    "Transfer": classes.Transfer(),
    "Settlement": settlement.Settlement("basic.ack"),
    "DeliveryState": Rejected(),
    "Accepted | Released | Rejected | Modified": delivery.Accepted(),
    "Received": Received(0, 0),
    "Described": Described(ULong(0x24), []),
    "Mapping[bytes, Any] | None": {},
    "Declare | bytes | bytearray | memoryview": delivery.Declare(),
    "Source | bytes | bytearray | memoryview": delivery.Source(),
    "Target | Coordinator | bytes | bytearray | memoryview": delivery.Target(),
    "JmsMessage": jms.JmsMessage(),
    "int | uuid.UUID | bytes | str": 1,
    "datetime.datetime | int": 1,
    "int | datetime.datetime": 1,
    "_datetime.datetime": datetime.datetime.now(datetime.UTC),
    "_decimal.Decimal | int | str": 1,
    "decimal.Decimal": decimal.Decimal(1),
    "Iterable[Case]": [],
    "Case": CASE,
    "Sequence[PeerResults]": [],
    "Iterable[PeerResults]": [],
    "Path": Path("missing"),
    "str | Path": "missing",
    "str | PathLike[str]": "missing",
    "Mapping[Any, Any]": {},
    "Mapping[str, str]": {},
    "Mapping[str, Any]": {},
    "Iterable[Any]": [],
    "Iterable[Sequence[Any]]": [],
    "Iterable[tuple[str, Any]]": [],
    "Iterable[Entry]": [],
    "Collection[str]": (),
    "Sequence[str]": ["x"],
    "tuple[str, ...]": (),
    "bytes | EllipsisType": b"k",
    "Coding": "gzip",
    "ClientName | object": "rhea",
    "int | str": 0x24,
    "DecodeError": DecodeError("cut", 0),
    "PeerResults": conformance.PeerResults("p", "p", []),
    "Sequence[Case]": [],
    "int | datetime.datetime | None": 1,
    "Outcome": delivery.Accepted(),
    "Mapping[str, int]": {"items": 3},
    "Stored": Stored(1, 0, b""),
}

#: Valid arguments of functions for which an annotation does not say enough to make one.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "basic.encode_field": {"letter": "I", "value": 1},
    "composite.offset_of_field": {"octets": b"\x45", "start": 0, "index": 0},
    "basic.decode_field": {"data": b"V"},
    "basic.decode_properties": {"data": b"\0\0"},
    "basic.decode_table": {"data": b"\0\0\0\0"},
    "Array": {"constructor": "int"},
    "interop.corpus.Amqp10msg.validate": {"profile": "oasis"},
    "composite.composite": {"symbol": "test:x:list"},
    "interop.systems.tracing.TraceParent": {"trace_id": b"1" * 16, "parent_id": b"1" * 8},
    "delivery.NodeProperties.from_fields": {"properties": {}},
    "translate.settlement.outcome_of_return": {"code": 312},
}

#: Objects whose methods are called, by class.
INSTANCES: dict[str, Callable[[], Any]] = {
    "translate.TranslationProfile": lambda: LOSSLESS,
    "Message": lambda: MESSAGE,
    "Scan": lambda: scan(MESSAGE.encode()),
    "Template": lambda: MESSAGE.template("body"),
    "AmqpMap": lambda: AmqpMap([]),
    "basic.FieldTable": lambda: FieldTable({"x": 1}),
    "basic.BasicMessage": BasicMessage,
    "translate.EncodedBasic": lambda: EncodedBasic.of(BasicMessage()),
    "delivery.DistributionNode": lambda: node_of(MESSAGE),
    "delivery.node.IncomingLink": lambda: node_of().attach_incoming(),
    "delivery.node.OutgoingLink": lambda: node_of(MESSAGE).attach(),
    "delivery.node.Delivery": lambda: take(node_of(MESSAGE).attach()),
    "delivery.node.DeadLetter": lambda: DeadLetter(MESSAGE.encode(), "expired", "q", None, 0),
    "delivery.node.MemoryStore": MemoryStore,
    "delivery.node.Memory": lambda: Memory(100),
    "Limits": Limits,
    "notation.Tree": lambda: parse_tree(MESSAGE),
    "notation.Node": lambda: parse_tree(MESSAGE).nodes[0],
    "delivery.Step": lambda: resume({b"t": None}, {b"t": delivery.Accepted()})[b"t"],
    "delivery.Source": delivery.Source,
    "delivery.filters.Filter": lambda: filters.Selector("a = 1"),
    "delivery.filters.Selector": lambda: filters.Selector("a = 1"),
    "delivery.filters.FilterSet": filters.FilterSet,
    "delivery.filters.StreamFilter": lambda: filters.StreamFilter("x"),
    "interop.corpus.Amqp10msg": corpus.Amqp10msg,
    "interop.corpus.Case": lambda: CASE,
    "interop.corpus.Report": lambda: corpus.run([CASE]),
    "validation.Profile": lambda: PROFILES["oasis"],
    "message.batch.Batch": lambda: Batch(500),
}

#: Parts of the package whose arguments need a broker, a JVM or files, and the methods of a filter
#: that others call with checked arguments.
ELSEWHERE = re.compile(
    r"(spark|net|jobs|columns|files|interop\.proton|delivery\.node\.sqlite|testing)\."
    r"|interop\.conformance\.(run|prepare|judge)$|interop\.corpus\.Pro"
    r"|delivery\.filters\.(register$|\w+\.(from_value|passes|prepare|reasons|to_value)$)"
    r"|Template\.write$"  # a method of the kernel, which the compiled build hides
)


def call_of(name: str, function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return what to call for a public function or method; None if it needs an unknown object."""
    class_name, _, method = name.rpartition(".")
    cls = public_callables().get(class_name)
    if not inspect.isclass(cls):
        return (
            None if inspect.isclass(function) and issubclass(function, BaseException) else function
        )
    member = inspect.getattr_static(cls, method)
    if isinstance(member, classmethod | staticmethod):
        bound: Callable[..., Any] = getattr(cls, method)
        return bound
    if isinstance(member, property) or class_name not in INSTANCES:
        return None
    instance: Any = INSTANCES[class_name]()
    return getattr(instance, method)  # type: ignore[no-any-return]


def sound_arguments(name: str, parameters: list[inspect.Parameter]) -> dict[str, Any] | None:
    """Return a value for each required parameter; None if an annotation has no value in `SOUND`."""
    found: dict[str, Any] = {}
    for parameter in parameters:
        own = ARGUMENTS.get(name, {})
        annotation = str(parameter.annotation).strip("'")
        if parameter.name in own:
            found[parameter.name] = own[parameter.name]
        elif parameter.default is parameter.empty:
            if annotation not in SOUND:
                return None
            found[parameter.name] = SOUND[annotation]
    return found


def cases() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Yield the name of each function, each of its parameters, and a call with a wrong argument."""
    for name, function in public_callables().items():
        call = None if ELSEWHERE.match(name) else call_of(name, function)
        if call is None:
            continue
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # a class of the interpreter, such as a subclass of int
            continue
        parameters = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.name not in (("self", "cls") if "." in function.__qualname__ else ())
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            and not parameter.name.startswith("_")
        ]
        arguments = sound_arguments(name, parameters)
        if arguments is None:
            continue
        for parameter in parameters:
            given = {**arguments, parameter.name: Unexpected()}
            before = [
                given.pop(one.name)
                for one in parameters
                if one.kind is one.POSITIONAL_ONLY and one.name in given
            ]
            yield name, parameter.name, functools.partial(call, *before, **given)


CASES = list(cases())


@pytest.mark.parametrize("name", sorted({name for name, _, _ in CASES}))
def test_argument_of_wrong_type_is_a_type_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for function, parameter, call in CASES:
        if function == name:
            try:
                with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = call()
                    if inspect.isgenerator(result) or hasattr(result, "__next__"):
                        list(result)
            except (TypeError, AmqpError, OSError, ImportError):
                pass
            except Exception as error:
                documented = documented_exceptions(public_callables()[name])
                names_it = isinstance(error, ValueError) and "Unexpected" in str(error)
                if not names_it and type(error).__name__ not in documented:
                    raise AssertionError(f"{parameter}: {error!r}") from error


def test_most_functions_are_called() -> None:
    """Whether the table still reaches the public functions: a new annotation needs a value."""
    functions = [
        name
        for name, function in public_callables().items()
        if inspect.isfunction(function)
        and not ELSEWHERE.match(name)
        and "." not in name.split(".")[-1]
    ]
    tried = {name for name, _, _ in CASES}
    lacking = [
        name
        for name in functions
        if name not in tried
        and not name.startswith("delivery.node.Store.")  # a protocol
        and [p for p in inspect.signature(public_callables()[name]).parameters if p != "self"]
    ]

    assert len(lacking) < 20, lacking
