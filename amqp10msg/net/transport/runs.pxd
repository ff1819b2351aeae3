cimport cython

cdef int _FIELDS, _COUNTED, _UINT0, _SMALL_UINT, _UINT, _BINARY, _TAG
cdef set _REST

@cython.locals(number=Py_ssize_t, place=Py_ssize_t)
cdef Py_ssize_t _uint(bytes buffer, Py_ssize_t at) except -1

@cython.locals(found=list, there=Py_ssize_t, channel=int, handle=int, on=int, of=int,
               end=Py_ssize_t, body=Py_ssize_t, at=Py_ssize_t, number=Py_ssize_t, tag=Py_ssize_t,
               rest=Py_ssize_t)
cpdef tuple whole_transfers(bytes buffer, Py_ssize_t start, Py_ssize_t max_frame, Py_ssize_t most)
