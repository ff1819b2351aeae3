cimport cython

from amqp10msg._core.reader cimport Reader
from amqp10msg._core.sections cimport Spec
from amqp10msg._core.twin cimport Layout
from amqp10msg._core.writer cimport Writer

cdef list SECTIONS
cdef list MESSAGE
cdef list SCAN
cdef int FIRST_CODE, FOOTER, PLACE_BODY, PLACE_FOOTER, PLACE_LENIENT
cdef int SHAPE_ANNOTATIONS, SHAPE_PROPERTIES


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
