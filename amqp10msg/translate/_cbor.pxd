# C types for _cbor.py. Changes in the same commit as _cbor.py, or the two builds part ways.

cimport cython

cdef int _MAX_DEPTH

cpdef bytes encode(value)
cdef bytes _head(int kind, number)
cpdef object decode(bytes data)
@cython.locals(kind=int, low=int, octets=bytes, items=list, found=dict, last=bytes,
               start=Py_ssize_t)
cdef tuple _read(bytes data, Py_ssize_t pos, int depth)
