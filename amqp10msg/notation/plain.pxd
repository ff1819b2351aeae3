cimport cython

from amqp10msg.wire.kernel.value_reader cimport ValueReader

cdef bytes KIND_OF_FORMAT_CODE, _ONE_BYTE_SIZE_CODES
cdef list _MARKER_BY_CODE
cdef double _INFINITY
cdef int _FIRST_SECTION_CODE, _DOLLAR_BYTE
cdef int KIND_ADDRESS, KIND_ANY, KIND_ARRAY, KIND_BINARY, KIND_BOOLEAN, KIND_CHAR
cdef int KIND_DOUBLE, KIND_FIELDS, KIND_FLOAT, KIND_LIST, KIND_LONG, KIND_MAP, KIND_MESSAGE_ID
cdef int KIND_NULL, KIND_STRING, KIND_SYMBOL, KIND_TIMESTAMP, KIND_UBYTE, KIND_ULONG, KIND_UUID

cdef class CompositeFields:
    cdef readonly str marker
    cdef readonly list names
    cdef readonly bytes kinds, multiple
    cdef readonly dict indexes

cdef class PlainSectionSpec:
    cdef readonly str name
    cdef readonly bytes head
    cdef readonly CompositeFields declared_fields
    cdef readonly int position, source, keys

@cython.final
cdef class PlainReader(ValueReader):
    cdef generic(self, int code)
    cdef marked(self, int code)
    cdef unmarked(self, int kind, int code)
    cdef values(self, int code)
    cdef entries(self, int code, int key_kind)
    @cython.locals(kind=int)
    cdef fields(self, CompositeFields declared_fields, int code)
    cdef section(self, PlainSectionSpec spec)
    @cython.locals(spec=PlainSectionSpec)
    cdef bint sections(self, dict document) except -1

@cython.locals(reader=PlainReader)
cdef plain_of(bytes octets, message)
