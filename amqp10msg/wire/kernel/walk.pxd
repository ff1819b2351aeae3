cimport cython

cdef bytes _CONTENT_WIDTHS, _SIZE_WIDTHS, _SIZE_AND_COUNT_WIDTHS
cdef list _TYPE_OF_FORMAT_CODE
cdef int _NOT_A_FORMAT_CODE, _FIRST_COMPOUND, _CONSTRUCTOR_UNREAD, _MAX_NESTED_DESCRIPTORS

@cython.locals(size_pos=Py_ssize_t, content=Py_ssize_t, stop=Py_ssize_t, end=Py_ssize_t,
               size=Py_ssize_t, width=Py_ssize_t)
cpdef tuple bounds(bytes data, Py_ssize_t pos, Py_ssize_t limit, int code)

@cython.locals(number=Py_ssize_t, i=Py_ssize_t)
cdef Py_ssize_t number_at(bytes data, Py_ssize_t pos, Py_ssize_t end) except -1

@cython.locals(code=int, at=Py_ssize_t, end=Py_ssize_t, count=Py_ssize_t, starts=list)
cpdef tuple elements_of(bytes data, Py_ssize_t pos, Py_ssize_t limit)

@cython.locals(pending=Py_ssize_t, descriptors_left=int, code=int,
               size=Py_ssize_t, width=Py_ssize_t)
cpdef Py_ssize_t end_of(bytes data, Py_ssize_t pos, Py_ssize_t limit) except -2

cpdef str type_at(bytes data, Py_ssize_t pos)

cpdef str text_at(bytes data, Py_ssize_t pos, Py_ssize_t end)
