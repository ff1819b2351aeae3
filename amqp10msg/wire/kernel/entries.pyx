# cython: language_level=3, boundscheck=True, wraparound=False
"""The entries of a mapping, to pass over them, in C: `entries.py` says the same in Python."""

cdef extern from *:
    """
    /* Whether a dict is passed over by its own way: what dict() asks before it copies one. */
    static int amqp_own_way(PyObject *mapping) {
        return PyDict_Check(mapping) && Py_TYPE(mapping)->tp_iter == PyDict_Type.tp_iter;
    }
    """
    bint amqp_own_way(object mapping)


cdef class Entries:
    """What a mapping holds."""

    @staticmethod
    cdef dict of(mapping):
        """Return a dict of the same entries in their order, which must not be changed."""
        # Of a subclass that has no way of its own to be passed over, C can look at the entries.
        return <dict>mapping if amqp_own_way(mapping) else dict(mapping)
