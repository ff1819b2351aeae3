# C types for _attributes.py. Changes in the same commit as _attributes.py, or the two builds part
# ways.

cimport cython

cdef extern from *:
    """
    #include <string.h>
    #include <structmember.h>

    #if PY_VERSION_HEX >= 0x030C0000
        #define BASIC_OBJECT_MEMBER Py_T_OBJECT_EX
    #else
        #define BASIC_OBJECT_MEMBER T_OBJECT_EX
    #endif

    /* Where a slot of a class is in its instances, or -1 if this is no such slot. */
    static CYTHON_INLINE Py_ssize_t slot_offset(PyObject *member, PyObject *cls) {
        PyMemberDef *slot;
        if (!Py_IS_TYPE(member, &PyMemberDescr_Type)) return -1;
        if (((PyDescrObject *)member)->d_type != (PyTypeObject *)cls) return -1;
        slot = ((PyMemberDescrObject *)member)->d_member;
        if (slot->type != BASIC_OBJECT_MEMBER || slot->offset < (Py_ssize_t)sizeof(PyObject)
            || slot->offset + (Py_ssize_t)sizeof(PyObject *)
               > ((PyTypeObject *)cls)->tp_basicsize) return -1;
        return slot->offset;
    }
    /* Whether these octets are a number of this width, big-endian. */
    static CYTHON_INLINE int same_number(const char *at, int width, unsigned PY_LONG_LONG number) {
        while (width--) {
            if ((unsigned char)at[width] != (number & 255)) return 0;
            number >>= 8;
        }
        return 1;
    }
    static CYTHON_INLINE PyObject *slot_value(PyObject *made, Py_ssize_t offset) {
        PyObject *held = *(PyObject **)((char *)made + offset);
        if (held == NULL) {
            PyErr_SetString(PyExc_AttributeError, "an attribute was deleted");
            return NULL;
        }
        Py_INCREF(held);
        return held;
    }
    static CYTHON_INLINE void set_slot(PyObject *made, Py_ssize_t offset, PyObject *value) {
        PyObject **slot = (PyObject **)((char *)made + offset), *before = *slot;
        Py_INCREF(value);
        *slot = value;
        Py_XDECREF(before);
    }
    /* The length of a text of ASCII, a str or of a subclass, -1 for anything else. */
    static CYTHON_INLINE Py_ssize_t text_size(PyObject *text) {
        if (!PyUnicode_Check(text)) return -1;
    #if PY_VERSION_HEX < 0x030C0000
        if (PyUnicode_READY(text) < 0) {
            PyErr_Clear();
            return -1;
        }
    #endif
        return PyUnicode_IS_ASCII(text) ? PyUnicode_GET_LENGTH(text) : -1;
    }
    static CYTHON_INLINE Py_ssize_t ascii_size(PyObject *text) {
        return PyUnicode_CheckExact(text) ? text_size(text) : -1;
    }
    /* Whether this is a str of ASCII without NUL, of so many characters at most. */
    static CYTHON_INLINE int plain_text(PyObject *text, Py_ssize_t most) {
        Py_ssize_t size = ascii_size(text);
        return size >= 0 && size <= most
            && memchr(PyUnicode_1BYTE_DATA(text), 0, (size_t)size) == NULL;
    }
    /* Add an entry to a dict or one of a subclass; give 0 where it has the key already. */
    static CYTHON_INLINE int add_entry(PyObject *mapping, PyObject *key, PyObject *value) {
        Py_ssize_t before = PyDict_Size(mapping);
        if (PyDict_SetDefault(mapping, key, value) == NULL) return -1;
        return PyDict_Size(mapping) != before;
    }
    /* A dict or one of a subclass as what it is, for a loop over it. */
    static CYTHON_INLINE PyObject *as_dict(PyObject *mapping) {
        Py_INCREF(mapping);
        return mapping;
    }
    """
    bint same_number(const char *at, int width, unsigned long long number)
    Py_ssize_t text_size(object text)
    Py_ssize_t ascii_size(object text)
    bint plain_text(object text, Py_ssize_t most)
    int add_entry(object mapping, object key, object value) except -1
    dict as_dict(object mapping)
    Py_ssize_t slot_offset(object member, object cls)
    object slot_value(object made, Py_ssize_t offset)
    void set_slot(object made, Py_ssize_t offset, object value)

cdef bint _COMPILED
cdef int _MOST


@cython.final
cdef class Slots:
    cdef readonly type cls
    cdef readonly tuple names
    cdef Py_ssize_t count
    cdef object get
    cdef object set
    cdef bint direct
    cdef Py_ssize_t offsets[32]

    @cython.locals(i=Py_ssize_t, offset=Py_ssize_t)
    cdef place(self)
    @cython.locals(i=Py_ssize_t, found=list)
    cpdef list values(self, made)
    @cython.locals(i=Py_ssize_t)
    cpdef fill(self, made, list values)
    @cython.locals(cls=type)
    cpdef build(self, list values)
