# C types for _shift_and.py. Changes in the same commit as _shift_and.py, or the two builds part
# ways.

cimport cython

cdef class ShiftAnd:
    cdef readonly Py_ssize_t size, words
    cdef int width
    cdef unsigned long long last
    cdef unsigned long long[::1] rows
    cdef long[::1] plain
    cdef dict others

    @cython.locals(
        words=Py_ssize_t,
        rows="unsigned long long[::1]",
        plain="long[::1]",
        last="unsigned long long",
        state="unsigned long long",
        at=Py_ssize_t,
        char=Py_UCS4,
        row=Py_ssize_t,
    )
    cpdef Py_ssize_t find(self, str text, Py_ssize_t start, Py_ssize_t end) except -2

    @cython.locals(
        words=Py_ssize_t,
        rows="unsigned long long[::1]",
        states="unsigned long long[::1]",
        plain="long[::1]",
        last="unsigned long long",
        state="unsigned long long",
        carry="unsigned long long",
        top=cython.int,
        at=Py_ssize_t,
        word=Py_ssize_t,
        char=Py_UCS4,
        row=Py_ssize_t,
    )
    cdef Py_ssize_t find_long(self, str text, Py_ssize_t start, Py_ssize_t end) except -2
