cdef class Bounded:
    pass
