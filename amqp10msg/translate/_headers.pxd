# C types for _headers.py. Changes in the same commit as _headers.py, or the two builds part ways.

cimport cython

cdef set _TAKEN
cdef set _SECTIONS
cdef set _INTERNAL
cdef dict _SYMBOLS
cdef dict _FOUND


cdef bint _is_of_broker(name) except -1
cpdef annotation_of(name)
cpdef header_of(key)
cpdef property_name(key)
cpdef bint is_name(name) except -1
cpdef place_of(name)
cdef bint _is_deliverable(name, item) except -1
@cython.locals(found=tuple)
cpdef tuple header_value(name, letter, value)
cpdef tuple header_field(name, item)
