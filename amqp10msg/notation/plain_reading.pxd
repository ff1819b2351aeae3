cimport cython

from amqp10msg.notation.plain cimport CompositeFields, PlainSectionSpec
from amqp10msg.wire.kernel.value_writer cimport ValueWriter

cdef dict _SECTION_SPECS, _KIND_BY_MARKER, _KEY_BY_SPELLING
cdef int PLACE_BODY, _INITIAL_WRITER_DEPTH, _MAX_WRITER_DEPTH, _MAX_JSON_LEVELS
cdef int KIND_ADDRESS, KIND_ANY, KIND_ARRAY
cdef int KIND_BINARY, KIND_BOOLEAN, KIND_DECIMAL32, KIND_DECIMAL128, KIND_DESCRIBED, KIND_DOUBLE
cdef int KIND_FIELDS, KIND_FLOAT, KIND_LIST, KIND_LONG, KIND_MAP, KIND_MESSAGE_ID, KIND_NULL
cdef int KIND_STRING, KIND_SYMBOL, KIND_TIMESTAMP, KIND_UBYTE, KIND_ULONG

@cython.final
cdef class PlainWriter(ValueWriter):
    cdef readonly int level, greatest_depth
    cdef readonly object first_encoding_error
    cdef int record_depth(self, int depth) except -1
    cdef Py_ssize_t begin(self) except -1
    cdef item(self, plain)
    cdef entries(self, plain, int key_kind)
    @cython.locals(kind=int)
    cdef marker(self, dict plain, str name)
    @cython.locals(i=int, count=int, last=int)
    cdef list_of_fields(self, CompositeFields declared_fields, content)
    @cython.locals(kind=int)
    cdef field(self, CompositeFields declared_fields, int i, plain)
    cdef unmarked(self, int kind, plain)
    cdef text_value(self, int kind, text)
    cdef floating(self, int kind, plain)
    cdef section(self, PlainSectionSpec spec, plain)
    @cython.locals(spec=PlainSectionSpec)
    cdef message(self, dict sections, bint in_order)

@cython.locals(writer=PlainWriter)
cdef PlainWriter _writer(int level, int depth)
@cython.locals(text=str)
cdef _marker_of(plain)
cdef int _encoded_kind(int kind, plain)
