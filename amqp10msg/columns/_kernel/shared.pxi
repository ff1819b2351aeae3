# Limits, kinds of fields and escapes of JSON, for both kernels.

cdef enum:
    MAX_FIELDS = 32
    MAX_MAPS = 4
    # Entries of a map section or of a nested map, and distinct keys of all objects in a VARIANT.
    # The Python implementation handles larger maps, and values nested deeper than MAX_NESTED.
    MAX_PAIRS = 128
    MAX_NESTED = 16

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

# The short escapes of JSON: the letter after the backslash by ASCII code of the character, and the
# character by letter; 0 for all others. An escaped slash is only read.
cdef uint8_t[128] ESCAPE_LETTERS, ESCAPED_CHARACTERS
for _character, _letter in zip(b'"\\\b\f\n\r\t', b'"\\bfnrt'):
    ESCAPE_LETTERS[<int> _character] = _letter
    ESCAPED_CHARACTERS[<int> _letter] = _character
ESCAPED_CHARACTERS[47] = 47
