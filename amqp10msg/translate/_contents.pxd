# C types for _contents.py. Changes in the same commit as _contents.py, or the two builds part ways.

cimport cython

cdef set _SECTIONS
cdef set _FLAGS
cdef dict _BY_NUMBER
cdef dict _NUMBERS
cdef int _FORMAT, _PLACES, _SHAPE, _SPARSE_PROPERTIES, _SPARSE_APPLICATION, _MOST_FIELDS


@cython.locals(right=bint)
cpdef bint is_of_message(dict content) except -1
@cython.locals(met=bytearray)
cdef bint _are_places(list places) except -1
cdef bint _are_bytes(values) except -1
cdef bint _are_indexes(dict found) except -1
cdef bint _are_names(dict found) except -1
cpdef bint is_of_basic(dict content) except -1
cdef bint _is_original(key, value) except -1
