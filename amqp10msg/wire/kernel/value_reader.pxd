cimport cython

from amqp10msg.wire.kernel.twin cimport Cursor

# Positions and counts are Py_ssize_t or long long, never a type in which four bytes of the wire
# could look like the error value.

cdef object DEFAULT_LIMITS
cdef bytes KIND_OF
cdef bytes LEAST
# Typed so that X.__new__(X, n) is a C call.
cdef type _Timestamp
cdef type _Int
cdef type _UInt
cdef type _ULong
cdef type _UShort
cdef type _Short
cdef long long _WORD
cdef long long _INT_MAX
cdef int MAX_GUESSABLE
cdef int _MAX_UUIDS
cdef int _DEPTH
cdef long long _ITEMS
cdef long long _ZERO_WIDTH


cpdef bytes octets_of(data, limits)


cdef class ValueReader(Cursor)


@cython.locals(reader=ValueReader)
cpdef decode_value(data, limits=*)


cdef class ValueReader(Cursor):
    cdef begin(self, data, Py_ssize_t pos, limits)

    cpdef fault(self, error, names=*)

    cdef translated(self, error)

    cdef odd_count(self, long long count, Py_ssize_t pos)

    cpdef trailing(self)

    cdef truncated(self, Py_ssize_t pos, Py_ssize_t needed)

    cdef unknown(self, int code, Py_ssize_t pos)

    cdef exceeded(self, what, Py_ssize_t pos)

    cdef too_small(self, Py_ssize_t pos, Py_ssize_t size, int least)

    cdef int enter(self, Py_ssize_t pos) except -1

    @cython.locals(pos=Py_ssize_t)
    cdef Py_ssize_t take(self, Py_ssize_t n) except? -1

    @cython.locals(pos=Py_ssize_t, stop=Py_ssize_t)
    cdef Py_ssize_t span(self, int code) except? -1

    @cython.locals(pending=Py_ssize_t, pos=Py_ssize_t, code=int)
    cpdef skip(self)

    @cython.locals(pos=Py_ssize_t)
    cpdef object value(self)

    @cython.locals(pos=Py_ssize_t, n=int)
    cdef object read(self, int code)

    @cython.locals(pos=Py_ssize_t, n="long long", word="long long", width=int)
    cdef object fixed(self, int code)

    @cython.locals(pos=Py_ssize_t, small=int, word="long long",
                   high="unsigned long long", low="unsigned long long")
    cdef object number(self, int code)

    @cython.locals(pos=Py_ssize_t)
    cdef object described(self)

    @cython.locals(pos=Py_ssize_t)
    cdef int descriptor(self) except -2

    @cython.locals(pos=Py_ssize_t, size=Py_ssize_t, stop=Py_ssize_t, count="long long")
    cdef Py_ssize_t open(self, int code) except? -1

    @cython.locals(start=Py_ssize_t, stop=Py_ssize_t, outer=Py_ssize_t)
    cdef Py_ssize_t descend(self, int code) except? -1

    cdef int ascend(self, Py_ssize_t outer) except -1

    cdef int close(self, Py_ssize_t stop, Py_ssize_t outer) except -1

    @cython.locals(start=Py_ssize_t, stop=Py_ssize_t, outer=Py_ssize_t, pos=Py_ssize_t,
                   values=list, count="long long")
    cdef object read_list(self, int code)

    @cython.locals(start=Py_ssize_t, stop=Py_ssize_t, outer=Py_ssize_t, at=Py_ssize_t,
                   pos=Py_ssize_t, count="long long", left="long long", size="long long",
                   guessable=int, made=dict)
    cdef object read_map(self, int code)

    cdef object read_pairs(self, dict made, key, value, long long left, Py_ssize_t at,
                           Py_ssize_t stop, Py_ssize_t outer)

    @cython.locals(start=Py_ssize_t, pos=Py_ssize_t, size=Py_ssize_t, stop=Py_ssize_t,
                   outer=Py_ssize_t, left=Py_ssize_t, count="long long", least=int,
                   values=list, descriptors=list)
    cdef object read_array(self, int code)

    cdef object no_constructor(self, Py_ssize_t pos, Py_ssize_t size, int width)
