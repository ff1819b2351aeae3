# C types for _merge_message.py. Changes in the same commit as _merge_message.py, or the two builds
# part ways.

cimport cython

from amqp10msg._core.twin cimport Layout, Text
from amqp10msg.translate._to_amqp10 cimport Natural
from amqp10msg.translate.report cimport Notes

cdef Notes _UNHEEDED
cdef Layout _PROPERTIES
cdef Layout _GIVEN
cdef list _FIELDS
cdef tuple _BY_INDEX
cdef set _COMPARED
cdef dict SPEC_OF


@cython.locals(known=set, made=Natural)
cpdef restored_message(basic, list entries, dict content, Notes notes, to_basic)
@cython.locals(places=list)
cdef tuple _plain(basic, list entries, set known, Notes notes, dict content)
cdef list _in_places(list places, list entries, set known)
cdef _original(dict content)
cdef set _names_of(annotations)
@cython.locals(made=Natural, sections=dict, heads=list)
cdef _restored_whole(basic, list entries, dict content, Notes notes, to_basic)
@cython.locals(headers=dict, kept=set, claimed=set)
cdef _assembled(basic, Natural made, dict content, original, set known, Notes notes)
@cython.locals(changes=dict)
cdef bytes _header(basic, Natural made, dict content)
@cython.locals(mine=list, original=list, indexes=list, kept=set, changed=bint, given=tuple,
               index=Py_ssize_t)
cdef tuple _properties(basic, Natural made, dict content, Notes notes)
cdef _back(row, value)
@cython.locals(size=Py_ssize_t, result=dict, restored=set, claimed=set, changed=bint)
cdef tuple _application(dict headers, Natural made, dict content, set taken)
cdef bytes _map(int code, dict entries)
@cython.locals(found=dict)
cdef dict _by_name(basic)
@cython.locals(same=tuple)
cdef bint _same_field(value, tuple field) except -1
cdef _forget(Natural made, name)
@cython.locals(mine=dict, carried=dict, added=list, result=dict, changed=bint, used=set, names=set,
               found=tuple, field=tuple)
cdef bytes _annotations(basic, dict headers, Natural made, dict content, original, set claimed,
                        set known, Notes notes)
@cython.locals(pos=Py_ssize_t, size=Py_ssize_t, out=list)
cdef bytes _body(basic, Natural made, dict content)
cdef _former_expiration(list entries)
cdef bint _is_same_body(before, basic) except -1
