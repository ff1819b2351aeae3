"""Where the fields of header and properties stand in the lists that the broker holds them in."""

from __future__ import annotations

import attrs

from amqp10msg.sections import Header, Properties

#: The specification's names of the fields, in the order of their declarations.
HEADER_NAMES, PROPERTY_NAMES = (
    tuple(field.name.replace("_", "-") for field in attrs.fields(cls))
    for cls in (Header, Properties)
)
DURABLE, PRIORITY, TTL, FIRST_ACQUIRER, DELIVERY_COUNT = range(len(HEADER_NAMES))
(
    MESSAGE_ID,
    USER_ID,
    TO,
    SUBJECT,
    REPLY_TO,
    CORRELATION_ID,
    CONTENT_TYPE,
    CONTENT_ENCODING,
    ABSOLUTE_EXPIRY_TIME,
    CREATION_TIME,
    GROUP_ID,
    GROUP_SEQUENCE,
    REPLY_TO_GROUP_ID,
) = range(len(PROPERTY_NAMES))
