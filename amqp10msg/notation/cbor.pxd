cimport cython

cdef int DETAIL, EIGHT_BYTES, INDEFINITE_LENGTH, MAJOR, MAJOR_ARRAY, MAJOR_BYTES, MAJOR_MAP
cdef int MAJOR_NEGATIVE, MAJOR_TAG, MAJOR_TEXT, MAJOR_UNSIGNED, ONE_BYTE
cdef int DECIMAL_TAG, DOUBLE_TAG, MAX_ITEM_DEPTH
cdef unsigned long long MESSAGE_TAG, UBYTE_TAG, UUID_TAG
cdef bytes KIND_OF_FORMAT_CODE, MAJOR_7_INITIAL_BYTES
cdef dict DECIMAL_TYPE_BY_WIDTH, INTEGER_RANGES, QUIET_NAN_BY_TYPE, SECTION_DESCRIPTORS
cdef dict TAG_BY_TYPE, TYPE_BY_TAG, TYPE_NAME_BY_CLASS, BIT_PATTERN_WIDTHS
cdef set ARRAY_CLASSES, UNTAGGED_CLASSES


cdef list _section_items(bytes octets, tag_class)
cdef object _item_of(value, tag_class)
@cython.locals(items=list)
cdef object _content_of(value, str name, tag_class)
cdef object _message_of_item(item, tag_class)
cdef bytes _encode_section(item, tag_class)
cdef bytes _encode_item(item, str step, tag_class)
cdef object _value_of(item, tag_class)
cdef object _value_of_type(str name, content, tag_class)
cdef object _float_of(number)
@cython.locals(values=list)
cdef object _compound_of(str name, items, tag_class)
@cython.locals(descriptors=list, elements=list)
cdef object _array_of(items, tag_class)
@cython.locals(pos=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, width=Py_ssize_t, i=Py_ssize_t,
               major=int, detail=int, number="unsigned long long",
               remaining="unsigned long long")
cpdef object check(bytes data)
