cimport cython

from amqp10msg.wire.kernel.twin cimport Cursor

# Positions and counts are Py_ssize_t or long long, so that four bytes of the input cannot be
# mistaken for the value that signals an exception.

cdef object DEFAULT_LIMITS, UNLIMITED
cdef bytes KIND_OF_FORMAT_CODE, MIN_SIZE_OF_FORMAT_CODE
# Declared with a type, so that X.__new__(X, n) is a C call.
cdef type _Timestamp, _Int, _UInt, _ULong, _UShort, _Short
cdef long long _TWO_TO_32, _MAX_INT32, _DEFAULT_ITEMS_LIMIT, _DEFAULT_ZERO_WIDTH_LIMIT
cdef long long _DEFAULT_ZERO_WIDTH_PER_BYTE_LIMIT, _FREE_ZERO_WIDTH
cdef long long _UNLIMITED_COUNT, _UNLIMITED_ZERO_WIDTH_PER_BYTE
cdef int MAX_KEYS_WITH_GUESSABLE_HASH, _MAX_UNCHECKED_KEYS, _DEFAULT_DEPTH_LIMIT


cpdef bytes octets_of(data, limits)


cdef class ValueReader(Cursor):
    @cython.locals(per_byte="long long")
    cdef begin(self, data, Py_ssize_t pos, limits)
    cdef int enter(self, Py_ssize_t pos) except -1
    cdef Py_ssize_t advance(self, Py_ssize_t n) except? -1
    cdef Py_ssize_t span(self, int code) except? -1
    @cython.locals(pending=Py_ssize_t)
    cpdef skip(self)
    cpdef object value(self)
    cdef object read(self, int code)
    cdef object fixed(self, int code)
    @cython.locals(high="unsigned long long", low="unsigned long long")
    cdef object number(self, int code)
    cdef object described(self)
    cdef int descriptor(self) except -2
    cdef Py_ssize_t open(self, int code) except? -1
    cdef Py_ssize_t extent(self, int width, int extra_bytes) except? -1
    cdef Py_ssize_t into(self, Py_ssize_t start, Py_ssize_t stop) except? -1
    cdef Py_ssize_t descend(self, int code) except? -1
    cdef int ascend(self, Py_ssize_t outer) except -1
    cdef int close(self, Py_ssize_t stop, Py_ssize_t outer) except -1
    cdef object read_list(self, int code)
    cdef object read_map(self, int code)
    cdef object read_pairs(self, dict entries, key, value, long long pairs_left, Py_ssize_t key_pos,
                           Py_ssize_t stop, Py_ssize_t outer)
    cdef object read_array(self, int code)


@cython.locals(reader=ValueReader)
cpdef decode_value(data, limits=*)
