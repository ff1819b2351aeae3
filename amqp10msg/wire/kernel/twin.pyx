# cython: language_level=3, boundscheck=True, wraparound=False
"""Byte input, byte output and attribute access in C: the counterpart of `twin.py`.

The compiled kernel loads this module, the pure build loads `twin.py`; both define the same names,
and the same tests run on both. Only this module, its included files and `twin.pxd` use pointers:
each function checks the positions, lengths and objects that it gets, so that an error in a caller
cannot access memory outside of an object.
"""

cimport cython
from cpython.dict cimport PyDict_Next, PyDict_SetItem, PyDict_Size
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from libc.string cimport memcmp, memcpy, memmove, memset

from operator import attrgetter

# The C types of the names that are imported below.
cdef int KIND_BINARY, KIND_BOOLEAN, KIND_LONG, KIND_SYMBOL, ONE_BYTE_SIZE_FIELD
cdef int SHAPE_ANNOTATIONS, SHAPE_BINARY, SHAPE_COMPOSITE, SHAPE_PROPERTIES
cdef type Int, Symbol, Timestamp, UInt
cdef dict KIND_OF_PYTHON_TYPE

from amqp10msg.wire.kernel.codes import (
    FIRST_SECTION_CODE,
    ALLOWED_NEXT_SECTIONS,
    KIND_ACCEPTS_STRING,
    KIND_BINARY,
    KIND_BOOLEAN,
    KIND_COUNT,
    KIND_LONG,
    KIND_SYMBOL,
    KIND_OF_PYTHON_TYPE,
    VALUES_OF_ONE_BYTE,
    PLACE_OF_SECTION,
    SHAPE_ANNOTATIONS,
    SHAPE_BINARY,
    SHAPE_COMPOSITE,
    SHAPE_PROPERTIES,
    ONE_BYTE_SIZE_FIELD,
    IS_SIGNED_KIND,
    ONE_BYTE_CODE_OF_KIND,
    SKIP_LENGTH_OF_FORMAT_CODE,
    FULL_WIDTH_CODE_OF_KIND,
    INTEGER_WIDTH_OF_KIND,
    ZERO_CODE_OF_KIND,
)
from amqp10msg.wire.kernel.fill import filler
from amqp10msg.wire.primitives import Int, Symbol, Timestamp, UInt


cdef extern from *:
    """
#include <structmember.h>

    #if PY_VERSION_HEX >= 0x030C0000
        #define AMQP_OBJECT_MEMBER Py_T_OBJECT_EX
        #define AMQP_READONLY_MEMBER Py_READONLY
    #else
        #define AMQP_OBJECT_MEMBER T_OBJECT_EX
        #define AMQP_READONLY_MEMBER READONLY
    #endif

    static CYTHON_INLINE unsigned PY_LONG_LONG amqp_load64(const char *at) {
        return (unsigned PY_LONG_LONG)amqp_load32(at) << 32 | amqp_load32(at + 4);
    }
    /* Return the address of a slot in an instance. `AttributeSlots` has checked the offset. */
    static CYTHON_INLINE PyObject **amqp_slot(PyObject *made, Py_ssize_t offset) {
        return (PyObject **)((char *)made + offset);
    }
    /* Threads may use the same object concurrently. With the GIL, this needs no lock. Without the
       GIL, slots are read and set under the object's lock, like CPython's own members. */
    #ifdef Py_GIL_DISABLED
        #define AMQP_BEGIN(object) Py_BEGIN_CRITICAL_SECTION(object);
        #define AMQP_END Py_END_CRITICAL_SECTION();
        #define AMQP_PUT(slot, value) _Py_atomic_store_ptr_release(slot, value)
    #else
        #define AMQP_BEGIN(object) {
        #define AMQP_END }
        #define AMQP_PUT(slot, value) (*(slot) = (value))
    #endif
    /* Set a slot. */
    static CYTHON_INLINE void amqp_set(PyObject *made, Py_ssize_t offset, PyObject *value) {
        PyObject **slot = amqp_slot(made, offset), *before;
        Py_INCREF(value);
        AMQP_BEGIN(made)
        before = *slot;
        AMQP_PUT(slot, value);
        AMQP_END
        Py_XDECREF(before);
    }
    /* Return a new reference to the object in a slot; NULL if the slot is empty. */
    static CYTHON_INLINE PyObject *amqp_get_slot(PyObject *made, Py_ssize_t offset) {
        PyObject *held;
        AMQP_BEGIN(made)
        held = *amqp_slot(made, offset);
        Py_XINCREF(held);
        AMQP_END
        return held;
    }
    /* Set a slot of a new object, which no other thread can access; needs no lock. */
    static CYTHON_INLINE void amqp_init_slot(PyObject *made, Py_ssize_t offset, PyObject *value) {
        PyObject **slot = amqp_slot(made, offset), *before = *slot;
        Py_INCREF(value);
        *slot = value;
        Py_XDECREF(before);
    }
    /* Return the length of an ASCII str or instance of a subclass; -1 for any other object. */
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
    /* Return the length of an ASCII str; -1 for any other object, also of a subclass. */
    static CYTHON_INLINE Py_ssize_t ascii_size(PyObject *text) {
        return PyUnicode_CheckExact(text) ? text_size(text) : -1;
    }
    /* Return the offset of the slot `member` in the instances of `cls`; -1 for other attributes. */
    static Py_ssize_t amqp_offset(PyObject *member, PyObject *cls) {
        PyMemberDef *slot;
        if (!Py_IS_TYPE(member, &PyMemberDescr_Type)) return -1;
        if (((PyDescrObject *)member)->d_type != (PyTypeObject *)cls) return -1;
        slot = ((PyMemberDescrObject *)member)->d_member;
        if (slot->type != AMQP_OBJECT_MEMBER || slot->flags & AMQP_READONLY_MEMBER) return -1;
        if (slot->offset < (Py_ssize_t)sizeof(PyObject)) return -1;
        if (slot->offset + (Py_ssize_t)sizeof(PyObject *)
            > ((PyTypeObject *)cls)->tp_basicsize) return -1;
        return slot->offset;
    }
    /* Return whether a class creates instances and accesses attributes in the default way. */
    static int amqp_ordinary(PyObject *cls) {
        PyTypeObject *type = (PyTypeObject *)cls;
        return type->tp_new == PyBaseObject_Type.tp_new
            && type->tp_getattro == PyObject_GenericGetAttr
            && type->tp_setattro == PyObject_GenericSetAttr;
    }
    /* Store and load the version of a class. Other threads that see the version also see the data
       that was stored before it. */
    #ifdef Py_GIL_DISABLED
        #define amqp_store_version(to, n) _Py_atomic_store_uint32_release((uint32_t *)(to), n)
        #define amqp_load_version(to) _Py_atomic_load_uint32_acquire((uint32_t *)(to))
        /* Each thread uses its own part of the cached texts (a share), so that threads do not
           contend for the same reference counts. With more threads than shares, some threads use
           the same share. */
        #define AMQP_SHARES 16
        #if defined(_MSC_VER)
            #define AMQP_OF_THREAD __declspec(thread)
        #elif defined(__GNUC__)
            #define AMQP_OF_THREAD __thread
        #else
            #define AMQP_OF_THREAD _Thread_local
        #endif
        static Py_ssize_t amqp_threads;
        static AMQP_OF_THREAD Py_ssize_t amqp_own_share; /* the share plus 1; 0: not assigned */
        static CYTHON_INLINE Py_ssize_t amqp_share(void) {
            if (amqp_own_share == 0) {
                amqp_own_share = 1
                    + (_Py_atomic_add_ssize(&amqp_threads, 1) & (AMQP_SHARES - 1));
            }
            return amqp_own_share - 1;
        }
        #define amqp_item PyList_GetItemRef
    #else
        #define amqp_store_version(to, number) (*(to) = (number))
        #define amqp_load_version(to) (*(to))
        /* With a GIL, all threads use one share. */
        #define AMQP_SHARES 1
        #define amqp_share() 0
        static CYTHON_INLINE PyObject *amqp_item(PyObject *list, Py_ssize_t i) {
            PyObject *item = PyList_GET_ITEM(list, i);
            Py_INCREF(item);
            return item;
        }
    #endif
    static PyObject *amqp_no_arguments; /* an empty tuple; set at import, and never freed */
    static void amqp_keep(PyObject *empty) {
        Py_INCREF(empty);
        amqp_no_arguments = empty;
    }
    /* Return a version number that any change of the class or its bases changes; 0 if unknown. */
    static CYTHON_INLINE unsigned int amqp_version(PyObject *cls) {
        return ((PyTypeObject *)cls)->tp_version_tag;
    }
    /* Create an instance whose slots are empty. */
    static CYTHON_INLINE PyObject *amqp_bare(PyObject *cls) {
        return ((PyTypeObject *)cls)->tp_alloc((PyTypeObject *)cls, 0);
    }
    /* Like `cls.__new__(cls)`, without counting a reference to the class. */
    static CYTHON_INLINE PyObject *amqp_new(PyObject *cls) {
        return ((PyTypeObject *)cls)->tp_new((PyTypeObject *)cls, amqp_no_arguments, NULL);
    }
    /* Look up a key like dict does, without a lookup of the method. */
    static CYTHON_INLINE PyObject *amqp_get(PyObject *mapping, PyObject *key) {
        return PyDict_Type.tp_as_mapping->mp_subscript(mapping, key);
    }
    """
    PyObject **amqp_slot(object made, Py_ssize_t offset)
    void amqp_set(object made, Py_ssize_t offset, PyObject *value)
    void amqp_init_slot(object made, Py_ssize_t offset, PyObject *value)
    PyObject *amqp_get_slot(object made, Py_ssize_t offset)
    unsigned long long amqp_load64(const char *at) noexcept nogil
    Py_ssize_t text_size(object text)
    Py_ssize_t ascii_size(object text)
    Py_ssize_t amqp_offset(object member, object cls)
    bint amqp_ordinary(object cls)
    unsigned int amqp_version(PyObject *cls) noexcept
    void amqp_store_version(unsigned int *to, unsigned int number)
    unsigned int amqp_load_version(unsigned int *to)
    Py_ssize_t AMQP_SHARES
    Py_ssize_t amqp_share() noexcept
    object amqp_item(PyObject *list_, Py_ssize_t i)
    object amqp_bare(PyObject *cls)
    object amqp_new(PyObject *cls)
    void amqp_keep(object empty)
    object amqp_get(object mapping, object key)


cdef extern from "Python.h":
    int _PyBytes_Resize(PyObject **octets, Py_ssize_t size) except -1
    PyObject *amqp_room "PyBytes_FromStringAndSize"(const char *octets, Py_ssize_t size) except NULL
    int PyFloat_Pack8(double number, char *octets, int little) except -1
    PyObject *PyDict_GetItem "PyDict_GetItemWithError"(object mapping, object key) except? NULL
    PyObject *amqp_type "(PyObject *)Py_TYPE"(PyObject *value)
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1
    double PyFloat_AS_DOUBLE(object number)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    const char *PyUnicode_DATA(object text)
    Py_ssize_t PY_SSIZE_T_MAX
    int PyList_SetItem(PyObject *slots, Py_ssize_t i, PyObject *item) except -1
    object PyUnicode_DecodeUTF8(const char *octets, Py_ssize_t n, const char *errors)
    object PyUnicode_DecodeASCII(const char *octets, Py_ssize_t n, const char *errors)


#: Whether the compiled kernel is loaded.
COMPILED = True
amqp_keep(())

# Texts.

cdef enum:
    LONGEST = 64  # maximum size of a cached text, in bytes
    SLOTS = 1024  # number of slots of a cache, for each share


cdef inline Py_ssize_t slot_of(const unsigned char *at, Py_ssize_t n) noexcept:
    """Return the slot for the n bytes at `at` in a cache, within the share of this thread."""
    return (
        amqp_share() * SLOTS
        + ((n * 131 + at[0] * 31 + at[n >> 1] * 7 + at[n - 1]) & (SLOTS - 1))
    )


@cython.final
cdef class Texts:
    """A cache of short symbols and keys by their bytes: a lookup costs less than a new object.

    Each of the two caches has a fixed number of slots, and a new text replaces the text in its
    slot. Therefore a peer that sends random texts cannot make the cache grow: it has at most
    2 * 1,024 entries of some 240 bytes, 0.5 MB; without the GIL, 8 MB.
    """

    cdef list symbols
    cdef list keys

    def __cinit__(self):
        self.symbols = [(b"", None)] * (SLOTS * AMQP_SHARES)
        self.keys = [(b"", None)] * (SLOTS * AMQP_SHARES)

    cdef object symbol(self, const unsigned char *at, Py_ssize_t n):
        """Return the symbol in the n bytes at `at`; raise UnicodeDecodeError if it is not ASCII."""
        made = self.find(<PyObject *>self.symbols, at, n)
        if made is None:
            made = Symbol.__new__(Symbol, PyUnicode_DecodeASCII(<const char *>at, n, NULL))
            self.put(<PyObject *>self.symbols, at, n, made)
        return made

    cdef object key(self, const unsigned char *at, Py_ssize_t n):
        """Return the text in the n bytes at `at`; raise UnicodeDecodeError if it is not UTF-8."""
        made = self.find(<PyObject *>self.keys, at, n)
        if made is None:
            made = PyUnicode_DecodeUTF8(<const char *>at, n, NULL)
            self.put(<PyObject *>self.keys, at, n, made)
        return made

    cdef object find(self, PyObject *slots, const unsigned char *at, Py_ssize_t n):
        """Return the cached text of the n bytes at `at`; None if it is not cached."""
        cdef PyObject *known
        if 0 < n <= LONGEST:
            entry = amqp_item(slots, slot_of(at, n))
            known = PyTuple_GET_ITEM(<tuple>entry, 0)
            if (
                PyBytes_GET_SIZE(<bytes>known) == n
                and memcmp(PyBytes_AS_STRING(<bytes>known), at, n) == 0
            ):
                return <object>PyTuple_GET_ITEM(<tuple>entry, 1)
        return None

    cdef int put(self, PyObject *slots, const unsigned char *at, Py_ssize_t n, text) except -1:
        """Cache the text of the n bytes at `at`, if they are at most `LONGEST`."""
        if 0 < n <= LONGEST:
            # Bytes and text are in one tuple, so that no thread sees the bytes of one text together
            # with another text.
            entry = (<bytes>(<const char *>at)[:n], text)
            Py_INCREF(entry)  # the list takes over a reference
            PyList_SetItem(slots, slot_of(at, n), <PyObject *>entry)
        return 0


cdef Texts TEXTS = Texts()
# The values with one byte of data, by share, format code minus 0x50, and byte. Those of all shares
# but the first are created on first use.
cdef list OCTET_VALUES = [value for values in VALUES_OF_ONE_BYTE for value in values]
OCTET_VALUES += [None] * (len(OCTET_VALUES) * (AMQP_SHARES - 1))


cdef object octet_value(int code, int octet):
    """Return the value of a format code from 0x50 to 0x54 and the byte after it."""
    cdef Py_ssize_t place = (amqp_share() * 5 + (code - 0x50)) * 256 + octet
    if not 0x50 <= code <= 0x54 or not 0 <= octet <= 255:
        raise IndexError("no such value")
    value = amqp_item(<PyObject *>OCTET_VALUES, place)
    if AMQP_SHARES > 1 and value is None:
        known = VALUES_OF_ONE_BYTE[code - 0x50][octet]
        value = type(known)(int(known))
        Py_INCREF(value)  # the list takes over a reference
        PyList_SetItem(<PyObject *>OCTET_VALUES, place, <PyObject *>value)
    return value


# The table `SKIP_LENGTH_OF_FORMAT_CODE`, by format code, as a C array.
cdef unsigned char STEP_OF[256]
for _code in range(256):
    STEP_OF[<int>_code] = SKIP_LENGTH_OF_FORMAT_CODE[_code]


# The content of a list or map.
cdef struct Compound:
    const unsigned char *at    # the start of the values
    const unsigned char *stop  # the end of the values
    Py_ssize_t count           # the number of values


cdef inline long long signed32(const unsigned char *at) noexcept:
    cdef long long number = amqp_load32(<const char *>at)
    return number - 0x100000000LL if number > 0x7FFFFFFFLL else number


cdef inline long long signed64(const unsigned char *at) noexcept:
    cdef unsigned long long number = amqp_load64(<const char *>at)
    cdef long long made
    memcpy(&made, &number, 8)
    return made


cdef inline double double64(const unsigned char *at) noexcept:
    cdef unsigned long long number = amqp_load64(<const char *>at)
    cdef double made
    memcpy(&made, &number, 8)
    return made


cdef bint enter_compound(Cursor cursor, int short_code, Compound *found) noexcept:
    """Read the constructor, size and count at the cursor into `found`.

    `short_code` is the constructor with a one-byte size. Returns False, without moving the cursor,
    for another constructor, and if size or count are invalid.
    """
    cdef const unsigned char *base = <const unsigned char *>PyBytes_AS_STRING(cursor.buf)
    cdef const unsigned char *at
    cdef Py_ssize_t left, size
    if not 0 <= cursor.pos <= cursor.end <= PyBytes_GET_SIZE(cursor.buf) or cursor.depth < 1:
        return False
    at = base + cursor.pos
    left = cursor.end - cursor.pos
    if left >= 3 and at[0] == short_code:
        size = at[1]
        if not 1 <= size <= left - 2:
            return False
        found.count = at[2]
        found.at = at + 3
        found.stop = at + 2 + size
    elif left >= 9 and at[0] == short_code + 0x10:
        size = amqp_load32(<const char *>at + 1)
        if not 4 <= size <= left - 5:
            return False
        found.count = amqp_load32(<const char *>at + 5)
        found.at = at + 9
        found.stop = at + 5 + size
    else:
        return False
    # Check the count before any value is read: every value has at least one byte.
    return found.count <= found.stop - found.at and found.count <= cursor.items_left

cdef int leave_compound(Cursor cursor, Compound *found) except -1:
    """Move the cursor to the end of a compound that was read, and count its items."""
    cursor.pos = found.stop - <const unsigned char *>PyBytes_AS_STRING(cursor.buf)
    cursor.items_left -= found.count
    return 0


include "picks.pxi"
include "reads.pxi"


@cython.auto_pickle(False)  # dict has its own pickle support
cdef class Mapping(dict):
    """The base class of mappings, whose subclasses look up keys as fast as a dict.

    For a Python class that is derived directly from dict, each access would look up `__getitem__`.
    """

    def __getitem__(self, key):
        return amqp_get(self, key)


# Attributes.

cdef inline object take_over(PyObject *held):
    """Return the object of a reference that the caller owns, and release the reference."""
    made = <object>held
    Py_XDECREF(held)
    return made


cdef class AttributeSlots:
    """Reads and sets several attributes of a class at once.

    With getattr and setattr, this would take 17 % of the time of decoding and 29 % of encoding.
    Therefore the slots of an ordinary class (see `amqp_ordinary`) are accessed directly in the
    memory of an instance. The check of the class is repeated when its version changes, for example
    after a monkeypatch. For other classes, and for instances of subclasses, getattr and setattr are
    used.
    """

    def __init__(self, cls, names):
        self.cls = cls
        self.names = tuple(names)
        self.count = len(self.names)
        self.set_all = filler(self.names)
        self.get_all = attrgetter(*self.names) if self.count > 1 else None
        self.version = 0
        self.ordinary = False

    cdef bint check(self) except -1:
        """Store whether the class is ordinary now, and the offsets of its slots; return whether."""
        cdef Py_ssize_t found[MOST_SLOTS]
        cdef Py_ssize_t i
        cdef unsigned int version
        cls = self.cls
        cdef bint ordinary = self.count <= MOST_SLOTS and amqp_ordinary(cls)
        for i in range(self.count):
            if not ordinary:
                break
            # The lookup assigns a version number to the current state of the class.
            found[i] = amqp_offset(getattr(cls, self.names[i], None), cls)
            ordinary = found[i] >= 0
        version = amqp_version(<PyObject *>self.cls)
        # Another thread may store the same data concurrently. Readers use the offsets only if the
        # stored version is the current version of the class.
        with cython.critical_section(self):
            if ordinary:
                memcpy(self.offsets, found, self.count * sizeof(Py_ssize_t))
            self.ordinary = ordinary
            amqp_store_version(&self.version, version)
        return ordinary and version != 0

    cdef bint direct(self) except -1:
        """Return whether the slots of an instance may be accessed directly."""
        cdef unsigned int version = amqp_load_version(&self.version)
        if version != 0 and version == amqp_version(<PyObject *>self.cls):
            return self.ordinary
        return self.check()

    cdef tuple values(self, made):
        """Return the attributes in order; raise AttributeError if one was deleted."""
        cdef Py_ssize_t i
        cdef PyObject *held
        cdef tuple found
        if type(made) is self.cls and self.direct():
            found = PyTuple_New(self.count)
            for i in range(self.count):
                held = amqp_get_slot(made, self.offsets[i])
                if held == NULL:
                    break
                PyTuple_SET_ITEM(found, i, <object>held)  # the tuple takes over the reference
            else:
                return found
        if self.get_all is None:
            return tuple([getattr(made, name) for name in self.names])
        return self.get_all(made)

    cdef object first(self, made):
        """Return the first attribute."""
        cdef PyObject *held = NULL
        if type(made) is self.cls and self.count and self.direct():
            held = amqp_get_slot(made, self.offsets[0])
        return getattr(made, self.names[0]) if held == NULL else take_over(held)

    cdef int fill(self, made, list values) except -1:
        """Set the attributes to `values` in order, without calling converters."""
        cdef Py_ssize_t i
        if (
            type(made) is self.cls
            and PyList_GET_SIZE(values) == self.count
            and self.direct()
        ):
            for i in range(self.count):
                amqp_set(made, self.offsets[i], PyList_GET_ITEM(values, i))
        else:
            self.set_all(made, values)
        return 0

    cdef object bare(self):
        """Create an instance without attributes; valid only if `direct` returned True."""
        return amqp_bare(<PyObject *>self.cls)

    cdef object build(self, list values):
        """Create an instance with these attributes, without converters."""
        made = self.bare() if self.direct() else amqp_new(<PyObject *>self.cls)
        self.fill(made, values)
        return made


cdef class Slot:
    """Access to a slot of a subclass of `Record`; the slot may be empty.

    With getattr, an empty slot would raise an AttributeError, which is four times slower.
    """

    def __init__(self, cls, name):
        self.cls = cls
        self.offset = amqp_offset(getattr(cls, name), cls)
        if self.offset < 0:
            raise TypeError(f"{name} is not a slot of {cls.__name__}")

    cdef object get(self, made):
        """Return the slot's value in an instance; None if it is empty or missing."""
        cdef PyObject *held = NULL
        if isinstance(made, self.cls):
            held = amqp_get_slot(made, self.offset)
        return None if held == NULL else take_over(held)

    cdef int put(self, made, value) except -1:
        """Set the slot's value in an instance."""
        if not isinstance(made, self.cls):
            raise TypeError(f"not a {self.cls.__name__}")
        amqp_set(made, self.offset, <PyObject *>value)
        return 0


include "writes.pxi"


cdef class FieldOutput(Output):
    """Output in the encodings of AMQP 0-9-1, in which a length precedes texts and tables."""

    cdef bint text(self, int width, text) except -1:
        """Append a length of 1 or 4 bytes and an ASCII str; return False for any other value."""
        cdef Py_ssize_t size = ascii_size(text)
        cdef char *at
        if not 0 <= size <= (255 if width == 1 else 0x7FFF_FFFF):
            return False
        make_room(self, size + 4)
        at = self.memory + self.size
        if width == 1:
            at[0] = <char>size
            at += 1
        else:
            store32(at, <unsigned int>size)
            at += 4
        memcpy(at, PyUnicode_DATA(text), size)
        self.size = at - self.memory + size
        return True

    cdef Py_ssize_t begin_table(self) except -1:
        """Reserve a length of four bytes; return the mark for `end_table`."""
        make_room(self, 4)
        self.size += 4
        return self.size

    cdef bint end_table(self, Py_ssize_t start) except -1:
        """Write the length of the bytes since the mark; return False if it is too large."""
        cdef Py_ssize_t size = self.size - start
        if start < 4 or size < 0:
            raise IndexError("no table was begun there")
        if size > 0xFFFF_FFFF:
            return False
        store32(self.memory + start - 4, <unsigned int>size)
        return True


cdef extern from *:
    """
    /* Return whether a mapping iterates like a dict; dict() tests this before a fast copy. */
    static int amqp_iterates_like_dict(PyObject *mapping) {
        return PyDict_Check(mapping) && Py_TYPE(mapping)->tp_iter == PyDict_Type.tp_iter;
    }
    """
    bint amqp_iterates_like_dict(object mapping)


cdef class Entries:
    """Holds the function `of`, which is a C function in the compiled kernel."""

    @staticmethod
    cdef dict of(mapping):
        """Return the entries as a dict in the same order; callers must not modify the dict."""
        # A dict subclass that does not override iteration can be read directly in C.
        return <dict>mapping if amqp_iterates_like_dict(mapping) else dict(mapping)


include "records.pxi"
