# C types for _cbor_items.py. Changes in the same commit as it, or the two builds part ways.

cimport cython

from amqp10msg.wire.kernel.value_reader cimport ValueReader
from amqp10msg.wire.kernel.value_writer cimport ValueWriter

cdef int DETAIL, EIGHT_BYTES, FOUR_BYTES, ITEM_DOUBLE, ITEM_FALSE, ITEM_HALF, ITEM_NULL
cdef int ITEM_SINGLE, ITEM_TRUE, MAJOR, MAJOR_ARRAY, MAJOR_BYTES, MAJOR_NEGATIVE, MAJOR_SIMPLE
cdef int MAJOR_TAG, MAJOR_TEXT, MAJOR_UNSIGNED, ONE_BYTE, TWO_BYTES
cdef bytes _KINDS
cdef dict _BITS
cdef list _HEADS
cdef bytes _NAN, _SINGLE_NAN
cdef unsigned long long _INTEGERS, _LAST_INTEGER, _MAP, _SYMBOL, _CHAR, _DESCRIBED, _MESSAGE, _FLOAT
cdef unsigned long long _FIRST, _INT64_MAX, _WORD
cdef int KIND_LONG


@cython.final
cdef class ItemReader(ValueReader):
    cdef ValueWriter out
    cdef unsigned long long argument

    @cython.locals(pos=Py_ssize_t, first=int, detail=int, high="unsigned long long",
                   low="unsigned long long")
    cdef int head(self) except -1
    cdef Py_ssize_t content(self) except? -1
    @cython.locals(pos=Py_ssize_t, major=int)
    cdef int item(self) except -1
    @cython.locals(number="long long")
    cdef int integer(self, int kind, int major) except -1
    @cython.locals(pos=Py_ssize_t, size=Py_ssize_t, octets=bytes)
    cdef int text(self, int code) except -1
    @cython.locals(mark=Py_ssize_t, count=Py_ssize_t, i=Py_ssize_t)
    cdef int values(self, int code) except -1
    @cython.locals(tag="unsigned long long", pos=Py_ssize_t, major=int, code=int,
                   number="unsigned long long")
    cdef int tagged(self) except -1
    @cython.locals(first=int, number=double)
    cdef int simple(self, Py_ssize_t pos) except -1
    @cython.locals(number=double, octets=bytes)
    cdef int single(self, Py_ssize_t pos) except -1
    @cython.locals(first=int)
    cdef double real(self, Py_ssize_t pos) except? -1
    @cython.locals(count="unsigned long long", i="unsigned long long",
                   message_format="unsigned long long")
    cdef object message(self)


@cython.locals(reader=ItemReader)
cpdef object octets_of_cbor(bytes data)
