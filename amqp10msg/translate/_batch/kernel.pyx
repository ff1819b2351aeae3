# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: annotation_typing=False
"""The kernel of `translate.batches`: translation of bytes to bytes, a batch at a time.

The module only exists compiled, so it is written in Cython's language. It is one module, so that
the C compiler inlines across its parts, which are included below.

The engine translates common messages: with the encodings that this library would choose, or their
long forms, with one body section, and with losses that the residual and the rows of the
correspondence cover. Every other message is unsupported: the engine undoes its output, and the
plain rules (in Python) translate it. So the engine never reports errors. A function returns
UNSUPPORTED if its input makes the message unsupported, otherwise OK.

A 0-9-1 message with a residual becomes the message that the residual describes, if its reverse
translation equals the 0-9-1 message, except for a broker's changes at delivery: sorted headers,
added headers, exchange and routing key. A 1.0 message with a residual gets its original headers and
properties back if none of them was edited. For the RabbitMQ profiles, the engine translates the
same kinds of messages.

Every size is compared with the remaining bytes before it is used: a cursor never passes its `stop`.
Output buffers grow before they are written to.
"""

cimport cython
from libc.stdint cimport int8_t, uint16_t
from libc.string cimport memchr, strchr, strlen
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc

from amqp10msg.basic._reader cimport PropertyLayout, Original, BasicReader
from amqp10msg.wire.kernel.twin cimport AttributeSlots

from struct import Struct

import attrs

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import BASIC_LAYOUT as BASIC_PROPERTY_LAYOUT
from amqp10msg.basic.properties import encode_properties
from amqp10msg.basic.tables import FieldArray, FieldTable, ScaledDecimal, as_table
from amqp10msg.translate import residual, table
from amqp10msg.translate.losses import ENGINE_LOSSES
from amqp10msg.translate.rabbitmq.sections import BROKER_ANNOTATION_PREFIXES
from amqp10msg.translate.rabbitmq.sections import HEADER_BY_SAVED_SECTION
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import Float

cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX

cdef PropertyLayout BASIC_LAYOUT = BASIC_PROPERTY_LAYOUT
cdef AttributeSlots BASIC_MESSAGE = AttributeSlots(
    BasicMessage, [field.name for field in attrs.fields(BasicMessage)]
)
cdef object HEAD = Struct(">HHQ")  # class, weight and body size in a content header

# The numeric descriptors of the sections (Part 3, 3.2).
cdef enum:
    HEADER_CODE = 0x70
    DELIVERY_ANNOTATIONS_CODE = 0x71
    MESSAGE_ANNOTATIONS_CODE = 0x72
    PROPERTIES_CODE = 0x73
    APPLICATION_PROPERTIES_CODE = 0x74
    DATA_CODE = 0x75
    AMQP_SEQUENCE_CODE = 0x76
    AMQP_VALUE_CODE = 0x77
    FOOTER_CODE = 0x78

include "../../wire/kernel/leaves.pxi"
include "values.pxi"
include "columns.pxi"
include "losses.pxi"
include "residual.pxi"
include "entries.pxi"
include "rules.pxi"
include "to_basic.pxi"
include "to_basic_body.pxi"
include "to_basic_lossless.pxi"
include "to_basic_restored.pxi"
include "to_basic_rabbitmq.pxi"
include "content.pxi"
include "to_amqp10.pxi"
include "to_amqp10_writing.pxi"
