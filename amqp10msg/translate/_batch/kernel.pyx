# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: annotation_typing=False
"""The kernel of `translate.batches`: translation of bytes to bytes, a batch at a time.

Compiled only, and so in Cython's own language. It is one module, so that the C compiler inlines
across its parts, which are included below in their order.

What it translates is what the lossless profile's own rules say of the usual messages: in the
encodings that this library would choose, or in long forms of them, with one section as their body,
and with losses that a residual keeps and the rows of the correspondence alone explain. Any other
message makes the row an odd one: what it wrote is taken back, and the thorough way translates it.
So it never says what is wrong. A message of 0-9-1 with a residual becomes what that says, where
this becomes the very same message again, but for what a broker does at delivery: it sorts headers,
adds some, and says exchange and routing key. One of 1.0 with a residual gets its headers and
properties back where none of them was edited. Of what the profiles of RabbitMQ say, it knows what
becomes of the same messages.

Every size is compared with what is left before it is used: a cursor never passes the `stop` that it
was given. Output grows before it is written to.
"""

cimport cython
from libc.stdint cimport int8_t, uint16_t
from libc.string cimport memchr, strchr, strlen
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc

from amqp10msg.basic._reader cimport PropertyRows, Original, BasicReader
from amqp10msg.wire.kernel.twin cimport Slots

from struct import Struct

import attrs

from amqp10msg.basic.message import BasicMessage
from amqp10msg.basic.properties import BASIC, encode_properties
from amqp10msg.basic.tables import FieldArray, FieldTable, ScaledDecimal, as_table
from amqp10msg.translate import residual, table
from amqp10msg.translate.losses import ENGINE_LOSSES
from amqp10msg.translate.rabbitmq.sections import OWN_ANNOTATIONS as OWN_NAMES
from amqp10msg.translate.rabbitmq.sections import SAVED_SECTIONS
from amqp10msg.wire.limits import UNLIMITED
from amqp10msg.wire.primitives import Float

cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX

cdef PropertyRows BASIC_LAYOUT = BASIC
cdef Slots BASIC_MESSAGE = Slots(
    BasicMessage, [field.name for field in attrs.fields(BasicMessage)]
)
cdef object HEAD = Struct(">HHQ")  # of a content header

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
