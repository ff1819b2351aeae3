# What both kernels know of sections: how much of each they hold, and which fields there are.

cdef enum:
    MAX_FIELDS = 32
    MAX_MAPS = 4
    MAX_PAIRS = 128

# How a field of a composite is read and written. An IDENTIFIER has its type in the second column, a
# TIMESTAMP its milliseconds where the first one cannot hold them.
cpdef enum:
    BOOLEAN_FIELD
    UBYTE_FIELD
    UINT_FIELD
    TIMESTAMP_FIELD
    BINARY_FIELD
    STRING_FIELD
    SYMBOL_FIELD
    IDENTIFIER_FIELD
