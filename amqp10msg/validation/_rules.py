"""The rules: the table that `validate` and the documentation read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias, cast

import attrs

from amqp10msg.validation._checks import CHECKS, Found
from amqp10msg.validation._view import View

#: ``error`` for what must not be, ``warning`` for what should not.
Severity: TypeAlias = Literal["error", "warning"]


@attrs.frozen
class Rule:
    """One rule: a row of the table that `validate` and the documentation read.

    Attributes:
        id: its short stable name; `DecodeError.rule` has the same one where decoding refuses it.
        clause: the clause of the specification. A rule that several clauses share names them all,
            and a violation of it names the one that was broken.
        severity: ``error`` for MUST, MUST NOT and what a type's definition requires,
            ``warning`` for SHOULD and SHOULD NOT. A profile may change it.
        text: what must be.
        quote: the specification's own words, where they are a sentence.
        refused: strict decoding refuses what breaks it.
        structural: it is about the encodings. Lenient decoding keeps a section that breaks it as
            bytes, and refuses a message where it cannot tell where a section ends, or for a limit.
        check: finds what breaks it; None where that shows when the message is read or encoded.
    """

    id: str
    clause: str
    severity: Severity
    text: str
    quote: str = ""
    refused: bool = False
    structural: bool = False
    check: Callable[[View], Iterator[Found]] | None = attrs.field(
        default=None, repr=False, eq=False
    )


# The name, the clause, the severity and which decoding refuses it; then what must be, and behind
# ``>`` the words of the specification.
_TABLE = """
# The encodings of Part 1: what the kernel refuses, under the kernel's names.
truncated | Part 1, 1.2 | error | structural
    A value has as many octets as its size or type requires.
unknown-constructor | Part 1, 1.2 | error | structural
    A value begins with a format code of Part 1, 1.6.
compound-size-too-small | Part 1, 1.2.3, 1.2.4 | error | structural
    The size of a list, map or array covers its count, and an array's its constructor.
count-exceeds-size | Part 1, 1.2.3, 1.2.4 | error | structural
    The values that a list, map or array counts fit into its size.
element-overruns-compound | Part 1, 1.2.3, 1.2.4 | error | structural
    A value ends before the list, map or array that it is in.
compound-trailing-bytes | Part 1, 1.2.3, 1.2.4 | error | structural
    Nothing follows the last value that a list, map or array counts.
boolean-octet-not-0-or-1 | Part 1, 1.6.2 | error | structural
    The octet of a boolean is 0x00 or 0x01.
char-not-a-unicode-scalar | Part 1, 1.6.16 | error | structural
    A char is a Unicode code point that is not a surrogate.
invalid-utf8 | Part 1, 1.6.20 | error | structural
    A string is UTF-8.
symbol-not-ascii | Part 1, 1.6.21 | error | structural
    A symbol is ASCII.
map-odd-count | Part 1, 1.6.23 | error | structural
    A map has a value for every key.
map-duplicate-key | Part 1, 1.6.23 | error | refused
    A map has every key once.
array-without-constructor | Part 1, 1.6.24 | error | refused
    An array has the constructor of its elements, also where it is empty.
depth-limit | Part 2, 2.8.15 | error | structural
    Values are nested no deeper than Limits.depth.
items-limit | Part 2, 2.8.15 | error | structural
    The message holds no more values than Limits.items.
zero-width-limit | Part 2, 2.8.15 | error | structural
    Arrays hold no more elements without octets than Limits.zero_width.
keys-limit | Part 2, 2.8.15 | error | refused
    A section of annotations has no more ulong keys than a dict takes from strangers: 4,096.
size-limit | Part 2, 2.8.15 | error | structural
    The message has no more octets than Limits.size.
# The sections.
not-a-section | Part 3, 3.2 | error | refused
    A message is a sequence of sections, which are described values.
    > Altogether a message consists of the following sections
unknown-section | Part 3, 3.2 | error | refused
    A section has one of the nine descriptors, 0x70 to 0x78.
    > Altogether a message consists of the following sections
section-out-of-order | Part 3, 3.2 | error | refused
    Sections are in order, from the header to the footer.
    > Altogether a message consists of the following sections
duplicate-section | Part 3, 3.2 | error | refused
    A message has one section of a kind, except several data or amqp-sequence.
    > Altogether a message consists of the following sections
mixed-body-sections | Part 3, 3.2 | error | refused
    The body is data, amqp-sequence or amqp-value, and not two of them.
    > Altogether a message consists of the following sections
body-missing | Part 3, 3.2 | error
    A message has a body: data, amqp-sequence or amqp-value.
    > The bare message consists of three sections: standard properties, application-properties, and
    > application-data (the body).
section-value-type | Part 3, 3.2.1 to 3.2.9 | error | refused
    A section's value is of the type that its descriptor names.
# Header and properties.
too-many-fields | Part 3, 3.2.1, 3.2.4 | error | refused
    Header and properties have no more fields than are defined: 5 and 13.
field-type | Part 3, 3.2.1, 3.2.4, 3.2.11 to 3.2.15 | error | refused
    A field is null or of its type; a message-id is ulong, uuid, binary or string, an address is a
    string.
delivery-annotations-rejected-type | Part 3, 3.2.2 | error
    The value of the delivery annotation rejected is an error (Part 2, 2.8.14).
    > Any values associated with the "rejected" key MUST be of type error.
content-type-not-mime | Part 3, 3.2.4 | warning
    The content-type is a MIME type, such as text/plain; one that is not known is left out.
    > For clarity, as per section 7.2.1 of RFC-2616 [RFC2616], where the content type is unknown
    > the content-type SHOULD NOT be set.
content-type-without-data | Part 3, 3.2.4 | warning
    The content-type is set only if the body is data.
    > When using an application-data section with a section code other than data, content-type
    > SHOULD NOT be set.
content-encoding-without-data | Part 3, 3.2.4 | error
    The content-encoding is set only if the body is data.
    > The content-encoding MUST NOT be set when the application-data section is other than data.
content-encoding-identity | Part 3, 3.2.4 | error
    The content-encoding is not identity: leave it out.
    > Implementations MUST NOT use the identity encoding.
content-encoding-compress | Part 3, 3.2.4 | warning
    The content-encoding is not compress.
    > Implementations SHOULD NOT use the compress encoding, except as to remain compatible with
    > messages originally sent with other protocols, e.g. HTTP or SMTP.
content-encoding-multiple | Part 3, 3.2.4 | warning
    There is one content-encoding.
    > Implementations SHOULD NOT specify multiple content-encoding values except as to be
    > compatible with messages originally sent with other protocols, e.g. HTTP or SMTP.
content-encoding-unregistered | Part 3, 3.2.4 | warning
    The content-encoding is registered at IANA, such as gzip.
    > Valid content-encodings are registered at IANA [IANAHTTPPARAMS].
# Application properties and annotations.
application-properties-key-type | Part 3, 3.2.5 | error | refused
    The key of an application property is a string.
    > The keys of this map are restricted to be of type string (which excludes the possibility of a
    > null key) and the values are restricted to be of simple types only, that is, excluding map,
    > list, and array types.
application-properties-value-not-simple | Part 3, 3.2.5 | error | refused
    The value of an application property is of a simple type, also where it is described.
    > The keys of this map are restricted to be of type string (which excludes the possibility of a
    > null key) and the values are restricted to be of simple types only, that is, excluding map,
    > list, and array types.
delivery-annotations-key-type | Part 3, 3.2.10 | error | refused
    A key of the delivery-annotations is a symbol or a ulong.
    > The annotations type is a map where the keys are restricted to be of type symbol or of type
    > ulong.
message-annotations-key-type | Part 3, 3.2.10 | error | refused
    A key of the message-annotations is a symbol or a ulong.
    > The annotations type is a map where the keys are restricted to be of type symbol or of type
    > ulong.
footer-key-type | Part 3, 3.2.10 | error | refused
    A key of the footer is a symbol or a ulong.
    > The annotations type is a map where the keys are restricted to be of type symbol or of type
    > ulong.
annotation-key-reserved | Part 3, 3.2.10 | warning
    An annotation's key is a symbol that begins with x-, unless a specification defines it.
    > All ulong keys, and all symbolic keys except those beginning with "x-" are reserved.
# What a Message has and its bytes do not.
message-format | Part 3, 3.2.16 | warning
    The message-format of a message that follows Part 3 is 0.
    > This value goes into the message-format field of the transfer frame when transferring
    > messages of the format defined herein.
not-encodable | Part 3, 3.2 | error
    Every value of a message can be encoded as what it is declared to be.
# What RabbitMQ 4 makes of messages that the specification allows, seen with 4.0.5 and 4.3.6.
rabbitmq-described-value | RabbitMQ 4 | error
    No annotation or application property is a described value, except an error.
rabbitmq-array-constructor | RabbitMQ 4 | error
    The elements of an array before the body are not in a short form of an integer, list, map or
    array, and no decimals.
rabbitmq-annotation-null | RabbitMQ 4 | error
    No message annotation is null: streams refuse the message, queues cannot deliver it.
rabbitmq-annotation-number | RabbitMQ 4 | warning
    No message annotation is a decimal, infinite or NaN: streams of 4.0 refuse the message, queues
    cannot deliver it.
rabbitmq-user-id-empty | RabbitMQ 4 | error
    The user-id is the name of the user of the connection, or left out.
"""
# On annotation-key-reserved: a reserved key is the specification's to assign. Whether it has been
# assigned since cannot be told from the message, and the clause says MUST only to receivers that do
# not know the key: so an encoded message is suspect, not wrong. On keys-limit: lenient decoding
# reads such a map as an AmqpMap, and so does a body.


def _rules() -> Iterator[Rule]:
    for row in re.findall(r"^[^\s#].*(?:\n .*)+", _TABLE, re.MULTILINE):
        head, *lines = row.split("\n")
        name, clause, severity, *refused = head.split(" | ")
        said = [line.strip() for line in lines]
        text = " ".join(line for line in said if not line.startswith(">"))
        quote = " ".join(line.removeprefix("> ") for line in said if line.startswith(">"))
        structural = refused == ["structural"]
        yield Rule(
            name,
            clause,
            cast("Severity", severity),
            text,
            quote,
            bool(refused),
            structural,
            CHECKS.get(name),
        )


#: Every rule by its name, in the order of the clauses.
RULES: Mapping[str, Rule] = MappingProxyType({rule.id: rule for rule in _rules()})
