# C types for _wire.py. Changes in the same commit as _wire.py, or the two builds part ways.
#
# Positions and counts are Py_ssize_t or long long, never a type in which four octets of the wire
# could look like the error value.

cimport cython

from amqp10msg._core.twin cimport Cursor, Layout, Output, Texts

cdef bytes _TYPE_OF
cdef bytes _LEAST
cdef Texts SYMBOLS
cdef dict _KINDS
cdef dict _SPECS
cdef list _SECTIONS
cdef dict _CODES
cdef dict _NAMES
cdef list _UBYTES
cdef list _UINTS
cdef list _ULONGS
cdef list _BYTES
cdef list _INTS
# Typed so that X.__new__(X, n) is a C call.
cdef type _Timestamp
cdef type _Int
cdef type _UInt
cdef type _ULong
cdef type _UShort
cdef type _Short
cdef long long _WORD
cdef long long _WORD_MAX
cdef long long _INT_MAX
cdef int _DEPTH
cdef long long _ITEMS
cdef long long _ZERO_WIDTH
cdef int _PART_ITEMS
cdef int _MAX_GUESSABLE
cdef int _MAX_UUIDS
cdef bytes _STRINGS
cdef list _MESSAGE
cdef list _SCAN
cdef int _NULL
cdef int _TRUE
cdef int _FALSE
cdef int _LIST0
cdef int _DESCRIBED
cdef bytes _WIDE_OCTETS
cdef bytes _WIDTHS
cdef bytes _WIDTHS_OF
cdef list _NULLS
cdef list _BODIES

@cython.final
cdef class Spec:
    cdef readonly str name
    cdef readonly object code
    cdef readonly str symbol
    cdef readonly int shape
    cdef readonly type cls
    cdef readonly Layout layout
    cdef readonly str attribute
    cdef readonly tuple names
    cdef readonly bytes kinds
    cdef readonly tuple defaults
    cdef readonly tuple mandatory
    cdef readonly bytes multiple
    cdef readonly list blank
    cdef readonly bytes head


@cython.final
cdef class Reader(Cursor):
    cdef begin(self, data, Py_ssize_t pos, limits)
    cpdef fault(self, error, names=*)
    cdef translated(self, error)
    cpdef trailing(self)
    cdef truncated(self, Py_ssize_t pos, Py_ssize_t needed)
    cdef unknown(self, int code, Py_ssize_t pos)
    cdef exceeded(self, what, Py_ssize_t pos)
    cdef too_small(self, Py_ssize_t pos, Py_ssize_t size, int least)
    cdef int enter(self, Py_ssize_t pos) except -1

    @cython.locals(pos=Py_ssize_t)
    cpdef object value(self)

    @cython.locals(pos=Py_ssize_t, stop=Py_ssize_t, n=int)
    cdef object read(self, int code)

    cdef object symbol(self, Py_ssize_t start, Py_ssize_t stop)

    @cython.locals(pos=Py_ssize_t)
    cdef Py_ssize_t take(self, Py_ssize_t n) except -1

    @cython.locals(pos=Py_ssize_t, n=Py_ssize_t)
    cdef object long_variable(self, int code)

    @cython.locals(kind=int, pos=Py_ssize_t, n="long long", word="long long", width=int)
    cdef object fixed(self, int code)

    @cython.locals(pos=Py_ssize_t, small=int, word="long long",
                   high="unsigned long long", low="unsigned long long")
    cdef object number(self, int code)

    @cython.locals(pos=Py_ssize_t)
    cdef object described(self)

    @cython.locals(pos=Py_ssize_t, size=Py_ssize_t, stop=Py_ssize_t, count="long long")
    cdef Py_ssize_t open(self, int code) except -1

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

    @cython.locals(have=int, pos=Py_ssize_t, n=Py_ssize_t)
    cdef object field(self, int kind, int code, Spec spec, int index)

    @cython.locals(start=Py_ssize_t, first=Py_ssize_t, pos=Py_ssize_t, stop=Py_ssize_t,
                   outer=Py_ssize_t, code=int, count="long long", i=Py_ssize_t, values=list,
                   buf=bytes)
    cdef list fields(self, Spec spec)

    cpdef object composite(self, Spec spec)

    @cython.locals(start=Py_ssize_t, pos=Py_ssize_t, at=Py_ssize_t, stop=Py_ssize_t,
                   outer=Py_ssize_t, code=int, have=int, count="long long", annotations=bint,
                   cls=type, guessable=int)
    cdef object mapping(self, Spec spec)

    @cython.locals(at=Py_ssize_t)
    cdef duplicate(self, long long count)

    cdef wrong_value(self, Spec spec, int code, wanted, Py_ssize_t pos)
    cdef wrong_key(self, Spec spec, int code, wanted, Py_ssize_t pos)

    @cython.locals(shape=int, start=Py_ssize_t, code=int)
    cpdef object section(self, Spec spec)

    @cython.locals(pos=Py_ssize_t, buf=bytes, code=int)
    cdef int section_code(self) except -2

    @cython.locals(start=Py_ssize_t, end=Py_ssize_t, code=int, index=int, last=int, several=bint,
                   found=list, spec=Spec, kind=type, buf=bytes, layout=Layout)
    cdef message(self, cls, message_format)

    @cython.locals(pending=Py_ssize_t, pos=Py_ssize_t, code=int)
    cpdef skip(self)

    @cython.locals(start=Py_ssize_t, code=int)
    cdef int part(self) except -2

    @cython.locals(start=Py_ssize_t, code=int, parts=list)
    cpdef list scan(self)


@cython.final
cdef class Writer(Output):
    @cython.locals(writer=Writer)
    cdef Writer inner(self)
    cdef int enter(self) except -1
    cdef Py_ssize_t open(self) except -1
    cdef int close(self, Py_ssize_t mark, int code, Py_ssize_t count) except -1
    cpdef value(self, value)
    cdef put(self, int kind, value)
    cdef string(self, str text)
    cdef symbol(self, text)
    @cython.locals(n=Py_ssize_t)
    cdef text(self, octets, int code)
    @cython.locals(number="long long", width=int, first="long long")
    cdef integer(self, int kind, value)
    cdef huge(self, int kind, value)
    cdef out_of_range(self, int kind, value)
    cdef plain(self, int kind, value)
    @cython.locals(mark=Py_ssize_t)
    cdef write_list(self, values)
    @cython.locals(mark=Py_ssize_t, apart=Writer)
    cdef pairs(self, pairs, Py_ssize_t count, keys)
    cdef other(self, value)
    @cython.locals(kind=int, code=int, count=Py_ssize_t, i=Py_ssize_t, mark=Py_ssize_t,
                   apart=Writer, body=Writer)
    cdef write_array(self, array)
    @cython.locals(have=int, size="long long", width=int)
    cdef bint element(self, int code, bytes octets) except -1
    @cython.locals(have=int)
    cpdef typed(self, int kind, value)
    cdef subclassed(self, int kind, value)
    cdef bint whole(self, Spec spec, section) except -1
    @cython.locals(spec=Spec)
    cdef bint body(self, body) except -1
    @cython.locals(shape=int)
    cpdef section(self, Spec spec, value)
    @cython.locals(defaults=tuple, items=tuple, kinds=bytes, kind=int, count=Py_ssize_t,
                   i=Py_ssize_t, mark=Py_ssize_t)
    cdef composite(self, Spec spec, value)
    @cython.locals(apart=Writer)
    cdef loosely(self, int kind, item)
    cdef several(self, int kind, values)
    @cython.locals(mark=Py_ssize_t)
    cdef fields(self, value)
    @cython.locals(mark=Py_ssize_t, entries=dict)
    cdef annotations(self, value)
    @cython.locals(mark=Py_ssize_t, kind=int, entries=dict)
    cdef properties(self, value)


cdef bint is_default(item, default) except -1

cdef class Scanned:
    cdef public bytes data
    cdef public object limits
    cdef public bint ordered

@cython.locals(writer=Writer, reader=Reader, spec=Spec, last=int, code=int, keep=Py_ssize_t,
               start=Py_ssize_t, new=int, final=int)
cdef bytes splice(bytes data, limits, list replaced, bint ordered)

cpdef check_section(Spec spec, section)

@cython.locals(kind=type, reader=Reader, made=Scanned, ordered=bint, last=int, code=int)
cdef scanned(data, limits)

@cython.locals(writer=Writer, layout=Layout, found=tuple)
cpdef write_message(message)

cpdef bytes octets_of(data, limits)

@cython.locals(reader=Reader)
cpdef decode_message(cls, data, limits=*, strict=*, message_format=*)
