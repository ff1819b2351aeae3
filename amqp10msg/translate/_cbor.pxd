# C types for _cbor.py. Changes in the same commit as _cbor.py, or the two builds part ways.

cimport cython

from amqp10msg.wire.kernel.twin cimport Output

cdef int DETAIL, EIGHT_BYTES, FOUR_BYTES, ITEM_NULL, MAJOR, MAJOR_ARRAY, MAJOR_BYTES, MAJOR_MAP
cdef int MAJOR_TEXT, MAJOR_UNSIGNED, ONE_BYTE, TWO_BYTES
cdef int _MAX_DEPTH


@cython.locals(writer=_Writer)
cpdef bytes encode(value)


@cython.final
cdef class _Writer(Output):
    @cython.locals(octets=bytes)
    cdef value(self, value)
    cdef head(self, int kind, number)


@cython.locals(reader=_Reader)
cpdef decode(bytes data)


@cython.final
cdef class _Reader:
    cdef bytes data
    cdef Py_ssize_t pos
    cdef Py_ssize_t end

    @cython.locals(
        data=bytes, pos=Py_ssize_t, head=int, kind=int,
        number="unsigned long long", i="unsigned long long",
    )
    cdef value(self, int depth)
    @cython.locals(start=Py_ssize_t, place=Py_ssize_t, width=int, number="unsigned long long")
    cdef unsigned long long wide(self, int low) except? 0
    @cython.locals(start=Py_ssize_t, octets=bytes)
    cdef string(self, int kind, unsigned long long size)
    @cython.locals(start=Py_ssize_t, i="unsigned long long", last=bytes, octets=bytes)
    cdef pairs(self, unsigned long long count, int depth)
