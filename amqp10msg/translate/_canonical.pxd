# C types for _canonical.py. Changes in the same commit as _canonical.py, or the two builds part ways.

from libc.string cimport memcmp

cimport cython

from amqp10msg._core.twin cimport Layout, as_dict, same_number, text_size

cdef extern from "Python.h":
    int PyFloat_Pack8(double number, char *data, int little) except -1
    const char* PyUnicode_AsUTF8(object text) except NULL

cdef bint _COMPILED
cdef Layout _SECTIONS
cdef Layout _HEADER
cdef Layout _PROPERTIES
cdef bytes _HEADER_KINDS
cdef tuple _HEADER_DEFAULTS
cdef bytes _PROPERTY_KINDS
cdef tuple _NO_DEFAULTS
cdef type _Symbol
cdef type _Int
cdef type _UInt


@cython.final
@cython.freelist(8)
cdef class Comparison:
    cdef bytes wire
    cdef Py_ssize_t pos

    cdef bint octet(self, int octet) except -1
    cdef bint octets(self, bytes octets) except -1
    # The pointers stay in their functions, which compare the size with what is left.
    @cython.locals(size=Py_ssize_t, chars="const char*", known="const char*", place="const char*")
    cdef bint text(self, int code, text) except -1
    @cython.locals(size=Py_ssize_t)
    cdef bint binary(self, bytes octets) except -1
    @cython.locals(known="const char*")
    cdef bint number(self, int width, long long number) except -1
    @cython.locals(number="long long")
    cdef bint integer(self, int small, int wide, int width, value) except -1
    @cython.locals(kind=type)
    cdef bint value(self, value) except -1
    @cython.locals(octets="char[8]", known="const char*")
    cdef bint float(self, double number) except -1
    @cython.locals(place=Py_ssize_t)
    cdef Py_ssize_t head(self, int code, int symbol) except -2
    @cython.locals(end=Py_ssize_t, size=Py_ssize_t)
    cdef bint tail(self, Py_ssize_t place, Py_ssize_t count) except -1
    @cython.locals(place=Py_ssize_t, count=Py_ssize_t, index=Py_ssize_t)
    cdef bint fields(self, int code, bytes kinds, tuple values, tuple defaults) except -1
    cdef bint field(self, int form, kind, value) except -1
    @cython.locals(place=Py_ssize_t, plain=dict)
    cdef bint mapping(self, int code, int symbol, section) except -1
    cpdef bint message(self, message) except -1
