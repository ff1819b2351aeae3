cimport cython

from amqp10msg.wire.kernel.twin cimport Output
from amqp10msg.wire.kernel.value_reader cimport ValueReader
from amqp10msg.wire.kernel.value_writer cimport ValueWriter

cdef int DETAIL, EIGHT_BYTES, FOUR_BYTES, INDEFINITE, ITEM_DOUBLE, ITEM_FALSE, ITEM_HALF
cdef int ITEM_NULL, ITEM_SINGLE, ITEM_TRUE, MAJOR, MAJOR_ARRAY, MAJOR_BYTES, MAJOR_MAP
cdef int MAJOR_NEGATIVE, MAJOR_SIMPLE, MAJOR_TAG, MAJOR_TEXT, MAJOR_UNSIGNED, ONE_BYTE, TWO_BYTES
cdef int KIND_ARRAY, KIND_BINARY, KIND_BOOLEAN, KIND_CHAR, KIND_DESCRIBED, KIND_DOUBLE, KIND_FLOAT
cdef int KIND_LIST, KIND_LONG, KIND_MAP, KIND_NULL, KIND_STRING, KIND_SYMBOL, KIND_TIMESTAMP
cdef int KIND_UBYTE, KIND_UUID
cdef bytes KIND_OF, _KINDS_BY_TAG, _NAN, _SINGLE_NAN, _DOUBLE_NAN, _SIMPLE
cdef list _TAGS, _WIDTHS, _FORMS, _HEADS, _SECTION_HEADS
cdef dict _CODES, _DECIMALS
cdef int _FIRST, _LAST, _MAX_DEPTH
cdef unsigned long long _FIRST_TAG, _LAST_INTEGER_TAG, _SYMBOL, _DOUBLE, _DECIMAL, _MAP
cdef unsigned long long _DESCRIBED, _MESSAGE, _UUID
cdef unsigned long long _INT64_MAX, _WORD


@cython.final
cdef class CborWriter(ValueReader):
    cdef Output out
    cdef int item(self) except -1
    cdef int content(self, int kind, int code) except -1
    cdef int head(self, int major, unsigned long long number) except -1
    cdef int integer(self, number) except -1
    cdef int text(self, int code, int major) except -1
    @cython.locals(size=int, number=double)
    cdef int real(self, int kind, bint tagged) except -1
    cdef int compound(self, int code) except -1
    cdef int array(self, int code) except -1
    cdef Py_ssize_t sections(self) except -2
    cdef Py_ssize_t lenient_sections(self) except -2


cdef bytes _shortest(number, int form, bytes octets)
@cython.locals(reader=CborWriter)
cdef bytes cbor_of_value(bytes octets)
@cython.locals(reader=CborWriter)
cdef bytes cbor_of_message(bytes octets, unsigned long long message_format, bint is_lenient)


@cython.final
cdef class CborReader(ValueReader):
    cdef ValueWriter out
    cdef unsigned long long argument
    cdef bint explains_errors
    cdef object first_encoding_error
    @cython.locals(high="unsigned long long", low="unsigned long long")
    cdef int head(self) except -1
    cdef int whole(self, str step) except -1
    cdef int item(self) except -1
    @cython.locals(code=int)
    cdef int tagged(self, Py_ssize_t start) except -1
    cdef int content(self, int kind, Py_ssize_t pos, int major) except -1
    cdef Py_ssize_t span_of_string(self) except -1
    cdef bint text(self, int code) except -1
    cdef int bits(self, int code) except -1
    @cython.locals(number="long long")
    cdef int integer(self, int kind, Py_ssize_t pos, int major) except -1
    cdef int real(self, int kind, Py_ssize_t pos) except -1
    @cython.locals(count=Py_ssize_t, i=Py_ssize_t, compares_keys=bint, keys=set)
    cdef int compound(self, int kind, Py_ssize_t pos) except -1
    cdef int key(self, set earlier_keys) except -1
    @cython.locals(i=Py_ssize_t)
    cdef int array(self, Py_ssize_t pos, Py_ssize_t count) except -1
    @cython.locals(i=Py_ssize_t)
    cdef object message(self)
    cdef int section(self) except -1
    cdef int section_code(self) except -1


@cython.locals(reader=CborReader)
cdef object bytes_of_cbor(bytes data, bint explains_errors)
@cython.locals(pos=Py_ssize_t, start=Py_ssize_t, width=Py_ssize_t, number="unsigned long long",
               remaining="unsigned long long")
cpdef object check(bytes data)
