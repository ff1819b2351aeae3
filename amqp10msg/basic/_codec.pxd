# C types for _codec.py. Changes in the same commit as _codec.py, or the two builds part ways.
#
# Positions and counts are Py_ssize_t or long long, never a type in which four octets of the wire
# could look like the error value.

from libc.string cimport memcpy

cimport cython

from amqp10msg._core.twin cimport Layout as Attributes
from amqp10msg._core.twin cimport ascii_size

cdef bint _COMPILED
cdef dict _KNOWN
cdef bytes _WIDTHS
cdef bytes _SIGNED
cdef list _LETTER_OF
# A constant, so that shifting it is arithmetic of C.
cdef long long _ONE

cdef extern from "Python.h":
    double PyFloat_Unpack8(const char *data, int little) except? -1
    int PyFloat_Pack8(double number, char *data, int little) except -1
    int PyByteArray_Resize(object array, Py_ssize_t size) except -1
    char* PyByteArray_AS_STRING(object array)
    const char* PyUnicode_AsUTF8(object text) except NULL

@cython.locals(a="unsigned int", b="unsigned int", c="unsigned int", d="unsigned int")
cdef long long _u32(bytes buf, Py_ssize_t pos) except? -1

# Pointers stay in the functions that compare the place with what there is, or make room.
@cython.locals(chars="const char*")
cdef double _f64(bytes buf, Py_ssize_t pos) except? -1
@cython.locals(i=int, number="unsigned long long", word="long long")
cdef object _integer(bytes buf, Py_ssize_t pos, int width, bint signed)
@cython.locals(size=Py_ssize_t, at=Py_ssize_t, target="char*", chars="const char*")
cdef bint _put_ascii(bytearray out, text, int width) except -1
@cython.locals(number="long long", at=Py_ssize_t, target="char*", i=int)
cdef bint _put_int(bytearray out, value, int width, bint signed) except -1
@cython.locals(at=Py_ssize_t, target="char*")
cdef _put_f64(bytearray out, double number)
@cython.locals(size="long long")
cdef _set_size(bytearray out, Py_ssize_t start)


@cython.final
cdef class Layout:
    cdef readonly tuple rows
    cdef readonly int known
    cdef readonly tuple names
    cdef readonly bytes domains
    cdef list blank
    cdef Attributes attributes


@cython.final
@cython.freelist(8)
cdef class Reader:
    cdef readonly bytes data
    cdef readonly object dialect
    cdef readonly object limits
    cdef public Py_ssize_t pos
    cdef public Py_ssize_t end
    cdef long long left
    cdef int depth
    cdef bytes known
    cdef bint spec

    cpdef fault(self, reason, Py_ssize_t offset, rule)
    cdef cut(self, what, Py_ssize_t offset, Py_ssize_t needs, Py_ssize_t end)
    cpdef finish(self)
    @cython.locals(pos=Py_ssize_t)
    cpdef object unsigned(self, int width, what)
    @cython.locals(pos=Py_ssize_t, stop=Py_ssize_t, data=bytes)
    cpdef object shortstr(self)
    @cython.locals(pos=Py_ssize_t, size=Py_ssize_t)
    cpdef object longstr(self)
    @cython.locals(start=Py_ssize_t, flags=int, found=list, domains=bytes, index=int, domain=int)
    cpdef object properties(self, Layout layout)
    @cython.locals(data=bytes, pos=Py_ssize_t, stop=Py_ssize_t, after=Py_ssize_t, size=Py_ssize_t,
                   code=int, entries=list)
    cpdef object table(self, int depth)
    @cython.locals(data=bytes, stop=Py_ssize_t, code=int, entries=list)
    cdef object array(self, int depth)
    @cython.locals(pos=Py_ssize_t, size=Py_ssize_t)
    cdef Py_ssize_t enter(self, what, int depth) except -1
    cdef too_many(self, Py_ssize_t at)
    @cython.locals(data=bytes, pos=Py_ssize_t, start=Py_ssize_t, size=Py_ssize_t,
                   outer=Py_ssize_t, width=int, signed=bint)
    cpdef object value(self, int code, Py_ssize_t stop, int depth)
    @cython.locals(pos=Py_ssize_t)
    cdef Py_ssize_t take(self, int code, int size, Py_ssize_t stop) except -1


cdef bytes octets_of(text, path)
cpdef write_shortstr(bytearray out, text, path)
cpdef write_longstr(bytearray out, octets)
@cython.locals(start=Py_ssize_t)
cpdef write_table(bytearray out, table, dialect, path=*, int depth=*)
@cython.locals(start=Py_ssize_t)
cdef _write_array(bytearray out, array, dialect, path, name, int depth)
cpdef write_value(bytearray out, letter, value, dialect, path, name, int depth)
cpdef write_number(bytearray out, value, int width, path)
@cython.locals(start=Py_ssize_t, flags=int, values=tuple, domains=bytes, index=int, domain=int)
cpdef write_rows(bytearray out, Layout layout, source, dialect)
