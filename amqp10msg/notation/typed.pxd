# C types for typed.py. Changes in the same commit as it, or the two builds part ways.

cimport cython

from amqp10msg.wire.kernel.value_reader cimport ValueReader
from amqp10msg.wire.kernel.value_writer cimport ValueWriter

cdef list _NAMES, _SECTIONS, _SOURCES, _HEADS
cdef bytes KIND_OF, _BITS
cdef dict _IDS, _CODES, _PLACES
cdef int _FIRST
cdef int KIND_ARRAY, KIND_BINARY, KIND_BOOLEAN, KIND_CHAR, KIND_DESCRIBED, KIND_LIST, KIND_LONG
cdef int KIND_MAP, KIND_NULL, KIND_STRING, KIND_SYMBOL, KIND_TIMESTAMP, KIND_UBYTE


@cython.final
cdef class TypedReader(ValueReader):
    @cython.locals(pos=Py_ssize_t)
    cdef object typed(self)
    @cython.locals(pos=Py_ssize_t, kind=int, width=int)
    cdef object content(self, int code)
    @cython.locals(outer=Py_ssize_t, values=list)
    cdef object typed_list(self, int code)
    @cython.locals(outer=Py_ssize_t, pairs=list)
    cdef object typed_map(self, int code)
    @cython.locals(pos=Py_ssize_t, stop=Py_ssize_t, count="long long", made=list,
                   descriptors=list)
    cdef object typed_array(self, int code)
    @cython.locals(place=int, made=list)
    cdef object sections(self)
    @cython.locals(typed=list)
    cdef object section(self, int place)
    cdef object odd_sections(self)


@cython.locals(reader=TypedReader)
cdef object typed_of(bytes octets, bint is_message, bint is_lenient)


@cython.final
cdef class TypedWriter(ValueWriter):
    cdef bint has_misfit, names_misfits

    @cython.locals(kind=int, size=Py_ssize_t, code=int, octets=bytes)
    cdef item(self, typed)
    @cython.locals(index=Py_ssize_t)
    cdef described(self, typed)
    @cython.locals(mark=Py_ssize_t)
    cdef items(self, typed)
    @cython.locals(index=Py_ssize_t)
    cdef values(self, typed, str step, bint described)
    @cython.locals(mark=Py_ssize_t, index=Py_ssize_t, side=int, seen=set)
    cdef entries(self, typed)
    @cython.locals(writer=TypedWriter)
    cdef key(self, typed, set seen)
    @cython.locals(mark=Py_ssize_t, code=int, elements=list, body=TypedWriter, index=Py_ssize_t,
                   unfit=Py_ssize_t)
    cdef array(self, typed, Py_ssize_t size)
    @cython.locals(writer=TypedWriter, index=Py_ssize_t, made=list)
    cdef list elements(self, typed, int code)
    @cython.locals(place=int, source=str)
    cdef section(self, typed)


@cython.locals(writer=TypedWriter)
cdef TypedWriter _writer(int depth, bint names_misfits)
@cython.locals(octets=bytes)
cdef bytes _hexed(text)
cdef int _code_of(typed) except -1
@cython.locals(writer=TypedWriter)
cpdef bytes bytes_of_value(typed)
@cython.locals(writer=TypedWriter, index=Py_ssize_t)
cdef bytes bytes_of_sections(typed)
