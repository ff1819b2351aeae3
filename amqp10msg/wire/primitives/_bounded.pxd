# C types for _bounded.py. Changes in the same commit as _bounded.py, or the two builds part ways.


cdef class Bounded:
    pass
