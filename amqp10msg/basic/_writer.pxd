cimport cython

from amqp10msg.wire.kernel.twin cimport FieldOutput
from amqp10msg.basic._reader cimport PropertyLayout, Original

cdef bytes octets_of(text, path)
cdef Py_ssize_t _begin_length(FieldOutput out, path, int depth) except -1
cdef _end_length(FieldOutput out, Py_ssize_t start, path)
cpdef write_shortstr(FieldOutput out, text, path)
cpdef write_longstr(FieldOutput out, octets)
cdef _checked_entry(entry, int count, path)
cpdef write_table(FieldOutput out, table, dialect, path=*, int depth=*)
cdef _write_array(FieldOutput out, array, dialect, path, int depth)
cdef dict _INTEGER_RANGES


@cython.locals(code=int, width=int)
cpdef write_value(FieldOutput out, letter, value, dialect, path, name, int depth)
cpdef write_number(FieldOutput out, value, int width, path)
cpdef bint is_unchanged(PropertyLayout layout, source, dialect) except -1
cpdef write_rows(FieldOutput out, PropertyLayout layout, source, dialect)
