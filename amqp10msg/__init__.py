"""AMQP 1.0 messages: decode bytes to typed values, exactly, strictly and fast.

Importing this package does not load its modules: each public name is imported on first use (PEP
562), so that the command can print its version or complete a line without loading the kernel.
"""

import importlib as _importlib

TYPE_CHECKING = False  # importing `typing` would be half of the time of ``--version``
if TYPE_CHECKING:
    from amqp10msg import (
        app,
        atomic_files,
        basic,
        brokers,
        columns,
        composite,
        delivery,
        files,
        filter_languages,
        interop,
        jobs,
        message,
        net,
        notation,
        options,
        pages,
        private_files,
        provenance,
        sections,
        spark,
        testing,
        translate,
        validation,
        wire,
    )
    from amqp10msg.message import Message, Template
    from amqp10msg.message.differences import Difference, differences
    from amqp10msg.message.picks import Picker
    from amqp10msg.message.rules import load_rules, rule
    from amqp10msg.sections import (
        AmqpSequence,
        AmqpValue,
        ApplicationProperties,
        Data,
        DeliveryAnnotations,
        Footer,
        Header,
        MessageAnnotations,
        Properties,
    )
    from amqp10msg.sections.parts import Malformed, Part, Scan, scan
    from amqp10msg.validation import ValidationError, Violation, validate
    from amqp10msg.wire.errors import (
        AmqpError,
        ChecksumError,
        ContentError,
        DecodeError,
        EncodeError,
    )
    from amqp10msg.wire.kernel import (
        COMPILED,
        decode_value,
        decode_values,
        encode_value,
        skip_value,
    )
    from amqp10msg.wire.limits import Limits
    from amqp10msg.wire.primitives import (
        AmqpMap,
        Array,
        Byte,
        Char,
        Decimal32,
        Decimal64,
        Decimal128,
        Described,
        Float,
        Int,
        Short,
        Symbol,
        Timestamp,
        UByte,
        UInt,
        ULong,
        UShort,
    )

__version__ = "0.1.0"

__all__ = [
    "COMPILED",
    "AmqpError",
    "AmqpMap",
    "AmqpSequence",
    "AmqpValue",
    "ApplicationProperties",
    "Array",
    "Byte",
    "Char",
    "ChecksumError",
    "ContentError",
    "Data",
    "Decimal32",
    "Decimal64",
    "Decimal128",
    "DecodeError",
    "DeliveryAnnotations",
    "Described",
    "Difference",
    "EncodeError",
    "Float",
    "Footer",
    "Header",
    "Int",
    "Limits",
    "Malformed",
    "Message",
    "MessageAnnotations",
    "Part",
    "Picker",
    "Properties",
    "Scan",
    "Short",
    "Symbol",
    "Template",
    "Timestamp",
    "UByte",
    "UInt",
    "ULong",
    "UShort",
    "ValidationError",
    "Violation",
    "__version__",
    "decode_value",
    "decode_values",
    "differences",
    "encode_value",
    "load_rules",
    "rule",
    "scan",
    "skip_value",
    "validate",
]

#: The module, relative to this package, that defines each public name.
_MODULE_OF = {
    "AmqpError": "wire.errors",
    "AmqpMap": "wire.primitives",
    "AmqpSequence": "sections",
    "AmqpValue": "sections",
    "ApplicationProperties": "sections",
    "Array": "wire.primitives",
    "Byte": "wire.primitives",
    "COMPILED": "wire.kernel",
    "Char": "wire.primitives",
    "ChecksumError": "wire.errors",
    "ContentError": "wire.errors",
    "Data": "sections",
    "Decimal128": "wire.primitives",
    "Decimal32": "wire.primitives",
    "Decimal64": "wire.primitives",
    "DecodeError": "wire.errors",
    "DeliveryAnnotations": "sections",
    "Described": "wire.primitives",
    "Difference": "message.differences",
    "EncodeError": "wire.errors",
    "Float": "wire.primitives",
    "Footer": "sections",
    "Header": "sections",
    "Int": "wire.primitives",
    "Limits": "wire.limits",
    "Malformed": "sections.parts",
    "Message": "message",
    "MessageAnnotations": "sections",
    "Part": "sections.parts",
    "Picker": "message.picks",
    "Properties": "sections",
    "Scan": "sections.parts",
    "Short": "wire.primitives",
    "Symbol": "wire.primitives",
    "Template": "message",
    "Timestamp": "wire.primitives",
    "UByte": "wire.primitives",
    "UInt": "wire.primitives",
    "ULong": "wire.primitives",
    "UShort": "wire.primitives",
    "ValidationError": "validation",
    "Violation": "validation",
    "decode_value": "wire.kernel",
    "decode_values": "wire.kernel",
    "differences": "message.differences",
    "encode_value": "wire.kernel",
    "load_rules": "message.rules",
    "rule": "message.rules",
    "scan": "sections.parts",
    "skip_value": "wire.kernel",
    "validate": "validation",
}
#: The modules and subpackages that are imported when they are first used as attributes.
_SUBMODULES = frozenset(
    {
        "app",
        "atomic_files",
        "basic",
        "brokers",
        "columns",
        "composite",
        "delivery",
        "files",
        "filter_languages",
        "interop",
        "jobs",
        "message",
        "net",
        "notation",
        "options",
        "pages",
        "private_files",
        "provenance",
        "sections",
        "spark",
        "testing",
        "translate",
        "validation",
        "wire",
    }
)


if not TYPE_CHECKING:  # a type checker would accept every misspelled name otherwise

    def __getattr__(name: str) -> object:
        """Import a public name, or a module of the package, when it is first used."""
        if name in _SUBMODULES:
            return _importlib.import_module(f"{__name__}.{name}")
        if name in _MODULE_OF:
            value = getattr(_importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
            globals()[name] = value
            return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, modules and subpackages."""
    dunder_names = {name for name in globals() if name.startswith("__")}
    return sorted(dunder_names.union(__all__, _SUBMODULES))
