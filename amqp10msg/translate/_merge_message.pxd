# C types for _merge_message.py. Changes in the same commit as _merge_message.py, or the two builds
# part ways.

cimport cython

from amqp10msg.translate._merge_sections cimport (
    annotations_octets,
    application_octets,
    body_octets,
    header_octets,
    properties_octets,
)
from amqp10msg.translate._natural cimport Natural
from amqp10msg.translate.report cimport Notes

cdef Notes _UNHEEDED
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
@cython.locals(found=dict)
cdef dict _by_name(basic)
cdef _merged_payload(original, basic, Natural made, dict content, Notes notes)
cpdef former_expiration(list entries)
cdef bint _is_same_body(before, basic) except -1
