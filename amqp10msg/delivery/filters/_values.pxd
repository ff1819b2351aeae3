# C types for _values.py. Changes in the same commit as _values.py, or the two builds part ways.

cpdef kind_of(value)
cpdef types_of(literal)
cpdef bint is_comparable(value) except -1
cpdef settled(value, bint octets)
cpdef compare(sign, left, right, bint octets)
cdef _rounded(value)
cdef _encoded(value)
cpdef same(reference, value)
cpdef arithmetic(sign, left, right, bint exact, bint finite=*)
cdef _calculated(sign, left, right, bint exact)
cpdef number(value)
