# Limits that reading and writing of nested values share: a value beyond them is left to the plain
# implementation.

cdef enum:
    MAX_NESTED_PAIRS = 64  # entries of a map
    MAX_NESTED = 16  # levels of values
