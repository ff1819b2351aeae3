cimport cython

from amqp10msg.wire.kernel.value_reader cimport ValueReader
from amqp10msg.wire.kernel.value_writer cimport ValueWriter

cdef list _TYPE_NAME_BY_CODE, _SECTION_NAMES, _SECTION_VALUE_TYPES, _SECTION_DESCRIPTORS
cdef bytes KIND_OF_FORMAT_CODE, _PATTERN_WIDTHS, _SECTION_VALUE_KINDS
cdef dict _KIND_BY_TYPE_NAME, _PATTERN_CODE_BY_KIND, _SECTION_INDEXES
cdef int _FIRST_SECTION_CODE
cdef int KIND_ARRAY, KIND_BINARY, KIND_BOOLEAN, KIND_CHAR, KIND_DESCRIBED, KIND_LIST, KIND_LONG
cdef int KIND_MAP, KIND_NULL, KIND_STRING, KIND_SYMBOL, KIND_TIMESTAMP, KIND_UBYTE


@cython.final
cdef class TypedReader(ValueReader):
    cdef object typed(self)
    @cython.locals(kind=int)
    cdef object content(self, int code)
    cdef object bare(self, int code, int kind)
    @cython.locals(values=list, i=Py_ssize_t, count=Py_ssize_t)
    cdef object typed_list(self, int code)
    @cython.locals(pairs=list, i=Py_ssize_t, count=Py_ssize_t)
    cdef object typed_map(self, int code)
    cdef object typed_array(self, int code)
    cdef object sections(self)
    @cython.locals(kind=int)
    cdef object section(self, int index)


@cython.locals(reader=TypedReader)
cdef object typed_of(bytes octets, bint is_message, bint is_lenient)


@cython.final
cdef class TypedWriter(ValueWriter):
    cdef bint has_misfit, names_misfits
    @cython.locals(kind=int, code=int)
    cdef item(self, typed)
    cdef described(self, typed)
    cdef items(self, typed)
    cdef values(self, typed, str step, bint described)
    cdef entries(self, typed)
    cdef key(self, typed, set earlier_keys)
    cdef array(self, typed, Py_ssize_t size)
    cdef list elements(self, typed, int code)
    @cython.locals(index=int)
    cdef section(self, typed)


@cython.locals(writer=TypedWriter)
cdef TypedWriter _writer(int depth, bint names_misfits)
cdef bytes _from_hex(text)
cdef int _code_of(typed) except -1
cpdef bytes bytes_of_value(typed)
cdef bytes bytes_of_sections(typed)
