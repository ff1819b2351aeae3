# Types for mappings.py: classes in C inherit the look-up of dict, classes in Python do not.

cdef class DeliveryAnnotations(dict):
    pass

cdef class MessageAnnotations(dict):
    pass

cdef class ApplicationProperties(dict):
    pass

cdef class Footer(dict):
    pass
