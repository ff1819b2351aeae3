# C types for terms.py. Changes in the same commit as terms.py, or the two builds part ways.

cimport cython

cdef int _MOST_LEVELS
cdef dict _SECTIONS, _SYMBOLS, _FLOAT_FORMS


cpdef check_level(int level)
cpdef kind_of(term)
cpdef untyped(value)
cpdef section_name(descriptor)
