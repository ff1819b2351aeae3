# C types for _cbor_octets.py. Changes in the same commit as it, or the two builds part ways.

cimport cython

from amqp10msg.wire.kernel.twin cimport Output
from amqp10msg.wire.kernel.value_reader cimport ValueReader

cdef int EIGHT_BYTES, FOUR_BYTES, ITEM_FALSE, ITEM_NULL, ITEM_TRUE, MAJOR_ARRAY, MAJOR_BYTES
cdef int MAJOR_NEGATIVE, MAJOR_TAG, MAJOR_TEXT, MAJOR_UNSIGNED, ONE_BYTE, TWO_BYTES
cdef bytes KIND_OF
cdef list _TAGS, _WIDTHS, _FORMS, _HEADS
cdef bytes _NAN
cdef int _FIRST, _LAST, _MAP, _SYMBOL, _CHAR, _DESCRIBED, _MESSAGE, _FLOAT, _DOUBLE
cdef int KIND_BINARY, KIND_BOOLEAN, KIND_CHAR, KIND_DOUBLE, KIND_FLOAT, KIND_LIST, KIND_LONG
cdef int KIND_MAP, KIND_NULL, KIND_STRING, KIND_SYMBOL, KIND_TIMESTAMP, KIND_UBYTE


@cython.final
cdef class CborReader(ValueReader):
    cdef Output out

    @cython.locals(pos=Py_ssize_t, code=int, kind=int)
    cdef int item(self) except -1
    @cython.locals(out=Output)
    cdef int head(self, int major, unsigned long long number) except -1
    cdef int integer(self, number) except -1
    @cython.locals(pos=Py_ssize_t)
    cdef int text(self, int code, int major) except -1
    @cython.locals(form=int, size=int, pos=Py_ssize_t, octets=bytes, number=double)
    cdef int real(self, int kind) except -1
    @cython.locals(outer=Py_ssize_t, count="long long")
    cdef int compound(self, int code) except -1
    @cython.locals(code=int, count=Py_ssize_t)
    cdef Py_ssize_t sections(self) except? -1


@cython.locals(i=int, short=bytes)
cdef bytes shortest(number, int form, bytes octets)
@cython.locals(reader=CborReader, count=Py_ssize_t)
cpdef object cbor_message(bytes octets, message_format)
@cython.locals(reader=CborReader)
cpdef object cbor_octets(bytes octets)
