# C types for plain.py. Changes in the same commit as it, or the two builds part ways.

cimport cython

from amqp10msg.wire.kernel.value_reader cimport ValueReader

cdef bytes KIND_OF, _SHORT
cdef list _MARKERS
cdef double _INFINITE
cdef int _FIRST, _DOLLAR, KIND_ADDRESS, KIND_ANY, KIND_ARRAY, KIND_BINARY, KIND_BOOLEAN, KIND_CHAR
cdef int KIND_DOUBLE, KIND_FIELDS, KIND_FLOAT, KIND_LIST, KIND_LONG, KIND_MAP, KIND_MESSAGE_ID
cdef int KIND_NULL, KIND_STRING, KIND_SYMBOL, KIND_TIMESTAMP, KIND_UBYTE, KIND_ULONG, KIND_UUID

cdef class Rows:
    cdef readonly object marker, names, kinds, multiple, places

cdef class SectionForm:
    cdef readonly object name, head, rows
    cdef readonly int place, source, keys

@cython.final
cdef class PlainReader(ValueReader):
    @cython.locals(kind=int, number=double)
    cdef generic(self, int code)
    cdef marked(self, int code)
    @cython.locals(pos=Py_ssize_t, number=double)
    cdef natural(self, int kind, int code)
    @cython.locals(outer=Py_ssize_t)
    cdef values(self, int code)
    @cython.locals(start=Py_ssize_t, pos=Py_ssize_t, count="long long", i="long long", made=dict)
    cdef entries(self, int code, int wanted)
    @cython.locals(count="long long", i="long long", have=int, kind=int, kinds=bytes, made=dict)
    cdef fields(self, Rows rows, int code)
    cdef section(self, SectionForm form)
    @cython.locals(number=int, last=int, form=SectionForm)
    cdef bint sections(self, dict made) except -1

@cython.locals(reader=PlainReader)
cdef plain_of(bytes octets, message)
