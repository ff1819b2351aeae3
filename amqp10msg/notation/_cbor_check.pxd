# C types for _cbor_check.py. Changes in the same commit as it, or the two builds part ways.

cimport cython


@cython.locals(
    pos=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, width=Py_ssize_t, i=Py_ssize_t,
    major=int, detail=int, number="unsigned long long", left="unsigned long long", outer=list,
)
cpdef object check(bytes data)
