"""Messages of both protocols that showed something about a broker; they are compared first."""

from __future__ import annotations

from typing import Any

from odd_messages import NULL, URNS, Compound, Octets, Sections, string, symbol

from amqp10msg.basic import BasicMessage, BasicProperties, FieldArray, FieldTable

__all__ = ["KNOWN_BASICS", "KNOWN_SECTIONS"]

_NAN = "827ff8000000000000"
_DECIMAL64 = "8431a0000000000001"
_ARRAY = "e00a0271" + 2 * "00000005"
_UUID = "98" + 16 * "5a"
_UUIDS = "e0120198" + 16 * "5a"
_NO_NAMES = "e00e01d1000000080000000255055505"


def _with_headers(*entries: tuple[str, str, Any], **given: Any) -> BasicMessage:
    return BasicMessage(BasicProperties(headers=FieldTable.of(entries), **given), b"b")


def _with_section(name: str, octets: str) -> BasicMessage:
    text = bytes.fromhex(octets).decode("utf-8", "surrogateescape")
    return _with_headers((f"x-amqp-1.0-{name}", "S", text))


_FORGED = ("x-amqp-1.0-properties", "S", "\0\x53\x73\udcc0\4\1\udca1\1m")
KNOWN_BASICS: list[BasicMessage] = [
    *(BasicMessage(body=b"b" * size) for size in (254, 255, 256)),
    *(
        _with_headers(("x-stream-offset", *field))
        for field in (("S", "5"), ("I", 5), ("l", -1), ("l", -256))
    ),
    *(_with_headers((name, "t", True)) for name in ("x-b", "b")),
    _with_headers(("x-b", "A", FieldArray.of([("t", True), ("F", FieldTable({"b": False}))]))),
    *(
        _with_headers(("x-stream-filter-value", *field))
        for field in (("S", "a"), ("x", b"a"), ("I", 5), ("S", "k" * 4097), ("S", "\udcff"))
    ),
    _with_headers(("x-basic-expiration", "S", "abc")),
    _with_headers(("x-basic-expiration", "S", "600000")),
    *(_with_headers((name, "V", None)) for name in ("x-exchange", "x-routing-key", "x-a", "a")),
    *(BasicMessage(BasicProperties(expiration="0" * size + "600000")) for size in (33, 34, 249)),
    *(
        _with_headers(("CC", "A", FieldArray.of([("S", "nowhere")])), ("CC", *field))
        for field in (("S", "b"), ("A", FieldArray.of([])))
    ),
    BasicMessage(BasicProperties(reply_to="amq.rabbitmq.reply-to")),
    BasicMessage(BasicProperties(reply_to="amq.rabbitmq.reply-to.x")),
    *(
        _with_section(name, octets)
        for name in ("properties", "app-properties", "message-annotations", "footer")
        for octets in ("005375a00161", "005372c10803a303782d6154" + "05", "005374c10402a1016140")
    ),
    _with_section("app-properties", "005373c00401a1016d"),
    *(_with_headers((f"x-amqp-1.0-{name}", "I", 5)) for name in ("footer", "app-properties")),
    BasicMessage(BasicProperties(type="amqp-1.0")),
    BasicMessage(BasicProperties(type="amqp-1.0"), bytes.fromhex("005377" + _NAN)),
    BasicMessage(BasicProperties(type="amqp-1.0"), bytes.fromhex("005374c10402a1016140005375a000")),
    # What looks like a uuid, and data that is no binary, in front of a value or alone.
    *(BasicMessage(BasicProperties(message_id=text)) for text in URNS),
    *(
        BasicMessage(BasicProperties(type="amqp-1.0"), bytes.fromhex(octets))
        for octets in (
            *("0053754500537754" + "05", "005375c00401a1016100537754" + "05", "00537545"),
            *("0053754500537645", "005375a000005375c00401a10161"),
            # Described values in a sequence, and numbers that Erlang has not in an array.
            *("005376c00701005307a10176", "005376c00a01c007010053" + "07a10176"),
            *(
                "005377c00701005307a10176",
                "005377e00601727fc00000",
                "005376c00b01e0080182" + _NAN[2:],
            ),
        )
    ),
    *(
        _with_headers((name, "S", "a"), ("x-a", "I", 1), (name, "S", "b"))
        for name in ("x-exchange", "x-routing-key")
    ),
    # Of those of a name only texts are read from a stream.
    *(
        _with_headers(*((name, *field) for field in fields))
        for name in ("x-exchange", "x-routing-key")
        for fields in (
            [("I", 5), ("I", 6)],
            [("S", "a"), ("x", b"b")],
            [("S", "a"), ("S", "\udcff")],
            [("I", 5), ("S", "a"), ("I", 6)],
        )
    ),
    # Earlier deaths that are no tables.
    _with_headers(("x-death", "A", FieldArray.of([("I", 5)]))),
    _with_headers(_FORGED, reply_to="\udcff"),
    _with_headers(_FORGED, message_id="urn:uuid:" + 36 * "g"),
]


_DATA = (b"\x53\x75", Octets(b"\xa0\x01b"))
_TTL = (b"\x53\x70", Compound(0xC0, (NULL, NULL, Octets(bytes.fromhex("70000aae60")))))
_SEVEN = "830000000000001b58"
_MAP = Compound(0xC1, ())


def _annotated(name: str, value: str) -> Sections:
    pair = symbol(name), Octets(bytes.fromhex(value))
    return (b"\x53\x72", Compound(0xC1, pair)), _DATA


def _annotated_twice(name: str, value: str) -> Sections:
    """The annotation is true; the application property of that name is the value."""
    annotations, body = _annotated(name, "41")
    pair = string(name), Octets(bytes.fromhex(value))
    return annotations, (b"\x53\x74", Compound(0xC1, pair)), body


def _field(code: int, index: int, value: str) -> Sections:
    """A message with one field in the header (0x70) or the properties (0x73)."""
    items = (*[NULL] * index, Octets(bytes.fromhex(value)))
    return (bytes([0x53, code]), Compound(0xC0, items)), _DATA


def _section(code: int, value: Compound = _MAP) -> Any:
    return bytes([0x53, code]), value


def _bodies(*codes: int) -> Sections:
    contents: dict[int, Any] = {
        0x75: _DATA[1],
        0x76: Compound(0xC0, (NULL,)),
        0x77: Octets(b"\x54\x05"),
    }
    return tuple((bytes([0x53, code]), contents[code]) for code in codes)


KNOWN_SECTIONS: list[Sections] = [
    *(_annotated("x-stream-filter-value", one) for one in ("a10161", "a00161", "5405", "40")),
    _annotated("x-stream-filter-value", "b100001001" + 4097 * "61"),
    *(_annotated("x-basic-delivery-mode", one) for one in ("5001", "5002", "5401", _ARRAY)),
    *(
        _annotated(name, value)
        for name in ("x-opt-deaths", "x-death", "x-basic-timestamp", "x-basic-app-id", "x-a")
        for value in (_NAN, _DECIMAL64)
    ),
    *(_annotated("x-basic-expiration", one) for one in ("a103616263", "a106363030303030", "5405")),
    *(_annotated("x-basic-priority", one) for one in ("5005", "5405", "a10161", "40")),
    *(_annotated("x-basic-type", one) for one in ("a10161", "723fc00000", "823ff8000000000000")),
    *(_annotated(name, "40") for name in ("x-exchange", "x-routing-key", "x-a")),
    *(_annotated("x-cc", one) for one in ("a10176", "c00401a10161", "45", "c003015405")),
    *(
        _field(0x70, 2, one)
        for one in (
            "54ff",
            "7100000e10",
            "a10161",
            "41",
            "45",
            "c10100",
            _ARRAY,
            _NAN,
            "7000000e10",
        )
    ),
    *(_field(0x70, 1, one) for one in ("54ff", "a10161", "41", _ARRAY, _NAN, "5005")),
    *(
        _field(0x73, 6, one)
        for one in ("723fc00000", "823ff8000000000000", "5405", "98" + 16 * "5a", "a00161", "41")
    ),
    *(_field(0x73, 3, one) for one in ("41", _ARRAY)),
    _field(0x73, 0, "7300000061"),
    *(_bodies(*codes) for codes in ((0x75, 0x76), (0x75, 0x77), (0x75, 0x76, 0x75))),
    *(_bodies(*codes) for codes in ((0x75, 0x77, 0x75), (0x76, 0x75), (0x77, 0x77))),
    *((_section(code), _DATA) for code in (0x70, 0x73)),
    (_section(0x74), _section(0x70, Compound(0xC0, ())), _section(0x72), _DATA),
    (_section(0x74), _section(0x74), _DATA),
    *((_DATA, _section(code)) for code in (0x70, 0x71, 0x72, 0x73, 0x74)),
    *(
        _annotated("x-cc", one)
        for one in ("c00401a30171", "c00702a10171a10172", "c00702a10171a00172")
    ),
    *(_annotated("x-basic-delivery-mode", one) for one in ("5000", "5003", "45", "41", "a10131")),
    *((_TTL, *_annotated("x-basic-expiration", one)) for one in ("41", _NAN, _DECIMAL64, _ARRAY)),
    *((_TTL, *_annotated("x-basic-expiration", one)) for one in ("5405", "45", "a103616263", "40")),
    *(_annotated("x-a", one) for one in ("e00601727fc00000", "e00a0182" + _NAN[2:])),
    *(_annotated("x-a", f"c1{3 + len(key) // 2:02x}02{key}5401") for key in ("45", "c10100", "40")),
    _field(0x70, 0, "e00601727fc00000"),
    # Of two headers of one name one is delivered, but both are converted; one is written.
    *(
        _annotated_twice("x-a", value)
        for value in (_NAN, _UUIDS, "c104025401" + "41", "c103024041")
    ),
    *(
        _annotated(name, value)
        for name in ("x-stream-offset", "x-first-death-queue", "x-last-death-reason")
        for value in (_UUID, _UUIDS, _NO_NAMES)
    ),
    (*_field(0x73, 9, _SEVEN), _section(0x73, Compound(0xC0, (Octets(b"\xa1\1m"),)))),
    (_DATA, _field(0x73, 9, _SEVEN)[0]),
]
