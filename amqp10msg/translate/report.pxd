# C types for report.py. Changes in the same commit as report.py, or the two builds part ways.

cimport cython

from amqp10msg.wire.kernel.twin cimport Layout

cdef Layout _TRANSLATION, _UNREAD


@cython.final
cdef class Notes:
    cdef public list losses
    cdef readonly bint heeded

    cpdef add(self, path, action, before, after, reason, bint recoverable=*)
    cpdef tell(self, rule, path, before, after=*)
    cpdef dropped(self, path, before, reason)
    cpdef carried(self, path, before, reason)
