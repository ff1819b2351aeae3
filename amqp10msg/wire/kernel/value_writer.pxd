cimport cython

from amqp10msg.wire.kernel.twin cimport Output

cdef dict KIND_OF_PYTHON_TYPE
cdef bytes MIN_SIZE_OF_FORMAT_CODE, ONE_BYTE_CODE_OF_KIND, FULL_WIDTH_CODE_OF_KIND
cdef bytes KIND_IS_MESSAGE_ID
cdef int KIND_NULL, KIND_BOOLEAN, KIND_UBYTE, KIND_USHORT, KIND_UINT, KIND_ULONG, KIND_BYTE
cdef int KIND_SHORT, KIND_INT, KIND_LONG, KIND_FLOAT, KIND_DOUBLE, KIND_DECIMAL32, KIND_DECIMAL64
cdef int KIND_DECIMAL128, KIND_CHAR, KIND_TIMESTAMP, KIND_UUID, KIND_BINARY, KIND_STRING
cdef int KIND_SYMBOL, KIND_LIST, KIND_MAP, KIND_ARRAY, KIND_DESCRIBED, KIND_ANY, KIND_MESSAGE_ID
cdef int KIND_ADDRESS, KIND_FIELDS, KIND_PAIRS, KIND_DATETIME, KIND_EXACT, _NULL, _TRUE, _FALSE
cdef int _LIST0, _DESCRIBED, _MAX_WRITER_DEPTH
cdef long long _MAX_UINT32


cdef class ValueWriter(Output):
    @cython.locals(writer=ValueWriter)
    cdef ValueWriter inner(self)
    cdef int enter(self) except -1
    cdef Py_ssize_t open(self) except -1
    cdef int close(self, Py_ssize_t mark, int code, Py_ssize_t count) except -1
    cpdef value(self, value)
    cdef put(self, int kind, value)
    cdef string(self, str text)
    cdef symbol(self, text)
    cdef text(self, octets, int code)
    @cython.locals(number="long long")
    cdef integer(self, int kind, value)
    cdef write_rare(self, int kind, value)
    cdef write_list(self, values)
    cdef pairs(self, pairs, Py_ssize_t count, keys)
    cdef composite_or_subclass(self, value)
    @cython.locals(kind=int, code=int)
    cdef write_array(self, array)
    cdef bint element(self, int code, bytes octets) except -1
    @cython.locals(value_kind=int)
    cpdef typed(self, int kind, value)
    cdef fields(self, value)
