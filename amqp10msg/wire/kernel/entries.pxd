# What the compiled kernel shares of entries.pyx.


cdef class Entries:
    @staticmethod
    cdef dict of(mapping)
