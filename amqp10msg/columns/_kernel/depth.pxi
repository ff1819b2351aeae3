# Limits of nested values, for both kernels: the Python implementation handles a value beyond them.

cdef enum:
    MAX_NESTED_PAIRS = 64  # entries of a map
    MAX_NESTED = 16  # levels of nesting
