# C types for _cbor_check.py. Changes in the same commit as it, or the two builds part ways.

cimport cython

cdef int DETAIL, EIGHT_BYTES, INDEFINITE, ITEM_DOUBLE, ITEM_FALSE, ITEM_HALF, ITEM_NULL
cdef int ITEM_SINGLE, ITEM_TRUE, MAJOR, MAJOR_ARRAY, MAJOR_BYTES, MAJOR_MAP, MAJOR_NEGATIVE
cdef int MAJOR_TAG, MAJOR_TEXT, MAJOR_UNSIGNED, ONE_BYTE
cdef bytes _SIMPLE


@cython.locals(
    pos=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, width=Py_ssize_t, i=Py_ssize_t,
    major=int, detail=int, number="unsigned long long", left="unsigned long long", outer=list,
)
cpdef object check(bytes data)
