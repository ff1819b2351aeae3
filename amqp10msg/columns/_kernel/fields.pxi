# Limits of the kernels for all fields, map sections, and entries of a map; and kinds of fields.

cdef enum:
    MAX_FIELDS = 32
    MAX_MAPS = 4
    MAX_PAIRS = 128

# How to read and write a field of a composite. Two of them have a second column: the AMQP type of
# an IDENTIFIER, and the milliseconds of a TIMESTAMP that its first column cannot represent.
cpdef enum:
    BOOLEAN_FIELD
    UBYTE_FIELD
    UINT_FIELD
    TIMESTAMP_FIELD
    BINARY_FIELD
    STRING_FIELD
    SYMBOL_FIELD
    IDENTIFIER_FIELD
