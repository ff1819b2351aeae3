cimport cython

from amqp10msg.wire.kernel.reader cimport Reader
from amqp10msg.wire.kernel.sections cimport Spec
from amqp10msg.wire.kernel.twin cimport Layout
from amqp10msg.wire.kernel.writer cimport Writer

cdef list SECTIONS
cdef list MESSAGE
cdef list SCAN
cdef int FIRST_CODE, FOOTER, PLACE_BODY, PLACE_FOOTER, PLACE_LENIENT
cdef int SHAPE_ANNOTATIONS, SHAPE_PROPERTIES
cdef Py_ssize_t _SMALL


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

@cython.locals(writer=Writer, layout=Layout, found=tuple, index=int)
cpdef write_message(message)

@cython.locals(before=Reader, reader=Reader, writer=Writer, spec=Spec, held=int, last=int, code=int,
               found=int, begin=Py_ssize_t, start=Py_ssize_t)
cdef bytes merge(bytes wire, bytes anew)

@cython.locals(writer=Writer, end=Py_ssize_t, last=Py_ssize_t, size=Py_ssize_t)
cdef bint says_anew(Reader before, Py_ssize_t begin, Spec spec, Reader reader,
                    Py_ssize_t start) except -1
