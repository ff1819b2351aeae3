# C types for cbor.py. Changes in the same commit as it, or the two builds part ways.

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
cdef bytes KIND_OF, _KINDS, _NAN, _SINGLE_NAN, _DOUBLE_NAN, _SIMPLE
cdef list _TAGS, _WIDTHS, _FORMS, _HEADS, _SECTIONS
cdef dict _CODES, _DECIMALS
cdef int _FIRST, _LAST, _MAX_DEPTH
cdef unsigned long long _FIRST_TAG, _LAST_INTEGER, _SYMBOL, _DOUBLE, _DECIMAL, _MAP, _DESCRIBED
cdef unsigned long long _MESSAGE, _UUID
cdef unsigned long long _INT64_MAX, _WORD


@cython.final
cdef class CborWriter(ValueReader):
    cdef Output out

    @cython.locals(pos=Py_ssize_t, code=int, kind=int)
    cdef int item(self) except -1
    @cython.locals(pos=Py_ssize_t)
    cdef int content(self, int kind, int code) except -1
    @cython.locals(out=Output)
    cdef int head(self, int major, unsigned long long number) except -1
    cdef int integer(self, number) except -1
    @cython.locals(pos=Py_ssize_t)
    cdef int text(self, int code, int major) except -1
    @cython.locals(form=int, size=int, pos=Py_ssize_t, octets=bytes, number=double)
    cdef int real(self, int kind, bint tagged) except -1
    @cython.locals(outer=Py_ssize_t, count="long long")
    cdef int compound(self, int code) except -1
    @cython.locals(pos=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t, count="long long",
                   descriptors=Py_ssize_t)
    cdef int array(self, int code) except -1
    @cython.locals(code=int, count=Py_ssize_t)
    cdef Py_ssize_t sections(self) except -2
    @cython.locals(count=Py_ssize_t)
    cdef Py_ssize_t odd_sections(self) except -2


@cython.locals(i=int, short=bytes)
cdef bytes _shortest(number, int form, bytes octets)
@cython.locals(reader=CborWriter)
cdef bytes cbor_of_value(bytes octets)
@cython.locals(reader=CborWriter, count=Py_ssize_t, sections=bytes)
cdef bytes cbor_of_message(bytes octets, unsigned long long message_format, bint is_lenient)


@cython.final
cdef class CborReader(ValueReader):
    cdef ValueWriter out
    cdef unsigned long long argument
    cdef bint careful
    cdef object late

    @cython.locals(pos=Py_ssize_t, first=int, detail=int, high="unsigned long long",
                   low="unsigned long long")
    cdef int head(self) except -1
    cdef object wrong(self, str wanted, Py_ssize_t pos)
    cdef int whole(self, str step) except -1
    @cython.locals(pos=Py_ssize_t, major=int, first=int)
    cdef int item(self) except -1
    @cython.locals(tag="unsigned long long", pos=Py_ssize_t, major=int, code=int)
    cdef int tagged(self, Py_ssize_t start) except -1
    @cython.locals(number="unsigned long long")
    cdef int content(self, int kind, Py_ssize_t pos, int major) except -1
    cdef object unfit(self, int kind, Py_ssize_t pos)
    cdef Py_ssize_t span_of_string(self) except -1
    @cython.locals(pos=Py_ssize_t, size=Py_ssize_t, octets=bytes)
    cdef bint text(self, int code) except -1
    @cython.locals(pos=Py_ssize_t)
    cdef int bits(self, int code) except -1
    @cython.locals(number="long long")
    cdef int integer(self, int kind, Py_ssize_t pos, int major) except -1
    @cython.locals(first=int, number=double, octets=bytes)
    cdef int real(self, int kind, Py_ssize_t pos) except -1
    @cython.locals(mark=Py_ssize_t, count=Py_ssize_t, out=ValueWriter, compared=bint, keys=set,
                   i=Py_ssize_t)
    cdef int compound(self, int kind, Py_ssize_t pos) except -1
    @cython.locals(out=ValueWriter, octets=bytes)
    cdef int key(self, set seen) except -1
    @cython.locals(out=ValueWriter, first=Py_ssize_t, start=Py_ssize_t, major=int, described=int,
                   descriptors=Py_ssize_t, code=int, kind=int, mark=Py_ssize_t, i=Py_ssize_t,
                   octets=bytes)
    cdef int array(self, Py_ssize_t pos, Py_ssize_t count) except -1
    @cython.locals(left="unsigned long long", major=int)
    cdef int pass_item(self) except -1
    @cython.locals(start=Py_ssize_t, count="unsigned long long", i="unsigned long long",
                   message_format="unsigned long long")
    cdef object message(self)
    @cython.locals(start=Py_ssize_t, pos=Py_ssize_t, major=int, count="unsigned long long")
    cdef int section(self) except -1
    @cython.locals(pos=Py_ssize_t)
    cdef int section_code(self) except -1


@cython.locals(reader=CborReader)
cdef object bytes_of_cbor(bytes data, bint careful)
@cython.locals(
    pos=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, width=Py_ssize_t, i=Py_ssize_t,
    major=int, detail=int, number="unsigned long long", left="unsigned long long", outer=list,
)
cpdef object check(bytes data)
