# C types for _values.py. Changes in the same commit as _values.py, or the two builds part ways.

cimport cython

cdef dict _BOUNDS
cdef dict _LETTERS
cdef tuple _NO_FIELD
cdef int _MAX_DEPTH
cdef type _Timestamp


@cython.locals(bounds=tuple)
cpdef tuple to_value(letter, value, int depth=*)
@cython.locals(exact=bint, items=list, found=tuple)
cdef tuple _list_of(array, int depth)
@cython.locals(exact=bint, found=dict)
cdef tuple _map_of(table, int depth)
@cython.locals(kind=type)
cpdef tuple to_field(value, int depth=*)
@cython.locals(exact=bint, entries=list)
cdef tuple _array_field(values, int depth)
@cython.locals(exact=bint, entries=list)
cdef tuple _table_field(found, int depth)
