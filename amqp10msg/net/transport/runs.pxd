cimport cython

cdef int _FIELDS_OFFSET, _COUNT_OFFSET, _UINT0, _SMALL_UINT, _UINT, _BINARY, _MAX_TAG
cdef set _PLAIN_FIELDS

@cython.locals(number=Py_ssize_t, index=Py_ssize_t)
cdef Py_ssize_t _read_uint(bytes buffer, Py_ssize_t offset) except -1

@cython.locals(transfers=list, length=Py_ssize_t, channel=int, handle=int, frame_channel=int,
               frame_handle=int, end=Py_ssize_t, body=Py_ssize_t, position=Py_ssize_t,
               number=Py_ssize_t, tag=Py_ssize_t, tag_end=Py_ssize_t)
cpdef tuple whole_transfers(bytes buffer, Py_ssize_t start, Py_ssize_t max_frame,
                            Py_ssize_t max_count)
