# C types for _merge_sections.py. Changes in the same commit as it, or the two builds part ways.

cimport cython

from amqp10msg.wire.kernel.twin cimport Layout, Text
from amqp10msg.translate._natural cimport Natural
from amqp10msg.translate.report cimport Notes

cdef Layout _PROPERTIES
cdef Layout _GIVEN
cdef list _FIELDS
cdef tuple _BY_INDEX
cdef set _COMPARED


@cython.locals(changes=dict)
cpdef bytes header_octets(basic, Natural made, dict content)
@cython.locals(mine=list, original=list, indexes=list, kept=set, changed=bint, given=tuple,
               index=Py_ssize_t)
cpdef tuple properties_octets(basic, Natural made, dict content, Notes notes)
cdef _back(row, value)
@cython.locals(size=Py_ssize_t, result=dict, restored=set, claimed=set, changed=bint)
cpdef tuple application_octets(dict headers, Natural made, dict content, set taken)
cdef dict _in_order(dict headers, dict entries)
cdef bytes _map(int code, dict entries)
@cython.locals(same=tuple)
cdef bint _same_field(value, tuple field) except -1
cdef _forget(Natural made, name)
@cython.locals(mine=dict, carried=dict, added=list, result=dict, changed=bint, used=set, names=set,
               found=tuple, field=tuple)
cpdef bytes annotations_octets(basic, dict headers, Natural made, dict content, original,
                               set claimed, set known, Notes notes)
@cython.locals(pos=Py_ssize_t, size=Py_ssize_t, out=list)
cpdef bytes body_octets(basic, Natural made, dict content)
