cimport cython

from amqp10msg.wire.kernel.twin cimport AttributeSlots
from amqp10msg.wire.kernel.value_reader cimport ValueReader
from amqp10msg.wire.kernel.writer cimport Spec, Writer

cdef object DEFAULT_LIMITS
cdef bytes KIND_OF_FORMAT_CODE, KIND_IS_MESSAGE_ID, PLACE_OF_SECTION
cdef list ALLOWED_NEXT_SECTIONS, SECTION_SPECS, REGISTER_MESSAGE_ARGUMENTS, REGISTERED_SCAN_CLASS
cdef dict SECTION_CODE_OF_DESCRIPTOR, NAMES_OF_DESCRIPTOR
cdef int KIND_ADDRESS, KIND_ANY, KIND_ARRAY, KIND_DESCRIBED, KIND_FIELDS, KIND_LONG, KIND_MAP
cdef int KIND_MESSAGE_ID, KIND_STRING, KIND_SYMBOL, KIND_TIMESTAMP, KIND_UBYTE, KIND_ULONG
cdef int SHAPE_COMPOSITE, SHAPE_ANNOTATIONS, SHAPE_PROPERTIES, SHAPE_BINARY, SHAPE_VALUE
cdef int FIRST_SECTION_CODE, FOOTER_CODE, PLACE_BODY, MAX_KEYS_WITH_GUESSABLE_HASH
cdef int _ITEMS_PER_SCANNED_SECTION, AMQP_VALUE, FOOTER
cdef int PLACE_FOOTER, PLACE_WIRE, PLACE_LENIENT
cdef Py_ssize_t _MAX_SIZE_WITH_ORIGINAL_SECTIONS


cdef class Reader(ValueReader):
    cdef object field(self, int kind, int code, Spec spec, int index)
    @cython.locals(i=Py_ssize_t)
    cdef list fields(self, Spec spec)
    cpdef object composite(self, Spec spec)
    cdef Py_ssize_t open_list(self, Spec spec) except? -1
    cdef Py_ssize_t open_map(self, Spec spec) except? -1
    cdef object mapping(self, Spec spec)
    cpdef object section(self, Spec spec)
    cdef int section_code(self) except -2
    cdef int skip_unusual_descriptor(self, int last, int positions, Py_ssize_t start) except -2
    cdef object read_unusual_section(self, int index)
    cdef int skip_section(self) except -2
    cpdef list scan(self)


@cython.locals(reader=Reader)
cpdef decode_message(cls, data, limits=*, strict=*, message_format=*)


cdef class Scanned:
    cdef public bytes data
    cdef public object limits
    cdef public bint ordered


@cython.locals(writer=Writer, reader=Reader, spec=Spec)
cdef bytes splice(bytes data, limits, list replaced, bint ordered)

cpdef check_section(Spec spec, section)

@cython.locals(kind=type, reader=Reader, scanned=Scanned)
cpdef scan(data, limits=*)

cpdef write_message(message)

@cython.locals(layout=AttributeSlots)
cdef tuple attributes_of(message)

@cython.locals(writer=Writer)
cdef bytes write_sections(tuple attributes)

cpdef encode_message(message)

@cython.locals(old_reader=Reader, new_reader=Reader, writer=Writer, spec=Spec)
cdef bytes with_original_sections(bytes original, bytes encoded)

@cython.locals(writer=Writer)
cdef bint sections_differ(Reader old_reader, Py_ssize_t old_start, Spec spec,
                    Reader new_reader, Py_ssize_t new_start) except -1
