cimport cython

from amqp10msg.wire.kernel.twin cimport Slots
from amqp10msg.wire.kernel.value_reader cimport ValueReader
from amqp10msg.wire.kernel.writer cimport Spec, Writer

cdef object DEFAULT_LIMITS
cdef bytes KIND_OF
cdef bytes IS_MESSAGE_ID
cdef list FOLLOWERS
cdef bytes PLACES
cdef dict CODES
cdef dict NAMES
cdef list SECTIONS
cdef list MESSAGE
cdef int KIND_ADDRESS, KIND_ANY, KIND_ARRAY, KIND_DESCRIBED, KIND_FIELDS, KIND_LONG, KIND_MAP
cdef int KIND_MESSAGE_ID, KIND_STRING, KIND_SYMBOL, KIND_TIMESTAMP, KIND_UBYTE, KIND_ULONG
cdef int SHAPE_COMPOSITE, SHAPE_ANNOTATIONS, SHAPE_PROPERTIES, SHAPE_BINARY, SHAPE_VALUE
cdef int FIRST_CODE, FOOTER_CODE, PLACE_BODY
cdef int MAX_GUESSABLE
cdef int _PART_ITEMS
cdef list SCAN
cdef int AMQP_VALUE, FOOTER, PLACE_FOOTER, PLACE_WIRE, PLACE_LENIENT
cdef Py_ssize_t _SMALL


cdef class Reader(ValueReader):
    @cython.locals(have=int, pos=Py_ssize_t)
    cdef object field(self, int kind, int code, Spec spec, int index)

    @cython.locals(start=Py_ssize_t, pos=Py_ssize_t, stop=Py_ssize_t, outer=Py_ssize_t, code=int,
                   count="long long", i=Py_ssize_t, known=Py_ssize_t, values=list, buf=bytes)
    cdef list fields(self, Spec spec)

    cpdef object composite(self, Spec spec)

    @cython.locals(start=Py_ssize_t, stop=Py_ssize_t, outer=Py_ssize_t, code=int,
                   count="long long")
    cdef Py_ssize_t open_map(self, Spec spec) except? -1

    @cython.locals(pos=Py_ssize_t, at=Py_ssize_t, stop=Py_ssize_t, outer=Py_ssize_t, code=int,
                   have=int, count="long long", annotations=bint, cls=type, guessable=int)
    cdef object mapping(self, Spec spec)

    @cython.locals(at=Py_ssize_t)
    cdef duplicate(self, long long count)

    cdef too_many(self, Spec spec, long long count, Py_ssize_t pos)
    cdef compound_property(self, key, Py_ssize_t pos)
    cdef wrong_value(self, Spec spec, int code, wanted, Py_ssize_t pos)
    cdef wrong_key(self, Spec spec, int code, wanted, Py_ssize_t pos)

    @cython.locals(shape=int, start=Py_ssize_t, code=int)
    cpdef object section(self, Spec spec)

    @cython.locals(pos=Py_ssize_t, buf=bytes, code=int, kind=int)
    cdef int section_code(self) except -2

    @cython.locals(index=int)
    cdef int odd_section(self, int last, int places, Py_ssize_t start) except -2

    cdef object other_section(self, int index)

    @cython.locals(start=Py_ssize_t, code=int)
    cdef int part(self) except -2

    @cython.locals(start=Py_ssize_t, code=int, parts=list)
    cpdef list scan(self)

    @cython.locals(code=int)
    cdef int code_at(self, Py_ssize_t start) except -2


@cython.locals(reader=Reader)
cpdef decode_message(cls, data, limits=*, strict=*, message_format=*)


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

@cython.locals(layout=Slots)
cpdef write_message(message)

@cython.locals(writer=Writer, index=int)
cdef bytes write_sections(tuple found)

@cython.locals(layout=Slots, found=tuple, octets=bytes)
cpdef encode_message(message)

@cython.locals(before=Reader, reader=Reader, writer=Writer, spec=Spec, held=int, last=int, code=int,
               found=int, begin=Py_ssize_t, start=Py_ssize_t)
cdef bytes merge(bytes wire, bytes anew)

@cython.locals(writer=Writer, end=Py_ssize_t, last=Py_ssize_t, size=Py_ssize_t)
cdef bint says_anew(Reader before, Py_ssize_t begin, Spec spec, Reader reader,
                    Py_ssize_t start) except -1
