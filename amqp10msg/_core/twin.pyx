# cython: language_level=3, boundscheck=True, wraparound=False
"""Octets in and out and the attributes of objects, in C: `twin.py` says the same in Python.

The compiled kernel takes this module, the pure one the other; they have the same names, and the
same tests run on both.
"""

from cpython.dict cimport PyDict_SetItem, PyDict_Size
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_New, PyTuple_SET_ITEM
from libc.string cimport memcmp, memcpy, memmove

from operator import attrgetter

from amqp10msg._core.fill import filler


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

    /* Where a slot of a class is in its instances, or -1 if this is no such slot. */
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
    static CYTHON_INLINE PyObject **amqp_slot(PyObject *made, Py_ssize_t offset) {
        return (PyObject **)((char *)made + offset);
    }
    static CYTHON_INLINE void amqp_set(PyObject *made, Py_ssize_t offset, PyObject *value) {
        PyObject **slot = amqp_slot(made, offset), *before = *slot;
        Py_INCREF(value);
        *slot = value;
        Py_XDECREF(before);
    }
    static CYTHON_INLINE PyObject *amqp_bare(PyObject *cls) {
        return ((PyTypeObject *)cls)->tp_alloc((PyTypeObject *)cls, 0);
    }
    static CYTHON_INLINE int amqp_short_ascii(PyObject *text) {
        if (!PyUnicode_Check(text)) {
            PyErr_SetString(PyExc_TypeError, "a text is a str");
            return -1;
        }
    #if PY_VERSION_HEX < 0x030C0000
        if (PyUnicode_READY(text) < 0) return -1;
    #endif
        return PyUnicode_IS_ASCII(text) && PyUnicode_GET_LENGTH(text) <= 255;
    }
    """
    Py_ssize_t amqp_offset(object member, object cls)
    PyObject **amqp_slot(object made, Py_ssize_t offset)
    void amqp_set(object made, Py_ssize_t offset, PyObject *value)
    object amqp_bare(object cls)
    int amqp_short_ascii(object text) except -1


cdef extern from "Python.h":
    int _PyBytes_Resize(PyObject **octets, Py_ssize_t size) except -1
    PyObject *amqp_room "PyBytes_FromStringAndSize"(const char *octets, Py_ssize_t size) except NULL
    int PyFloat_Pack8(double number, char *octets, int little) except -1
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    const char *PyUnicode_DATA(object text)
    Py_ssize_t PY_SSIZE_T_MAX
    object PyUnicode_DecodeUTF8(const char *octets, Py_ssize_t n, const char *errors)
    object PyUnicode_DecodeASCII(const char *octets, Py_ssize_t n, const char *errors)


#: Whether the kernel that runs is the compiled one.
COMPILED = True

# Texts.

cdef Py_ssize_t _MAX_TEXT = 64
cdef Py_ssize_t _SLOTS = 1024


cdef inline Py_ssize_t slot_of(const unsigned char *at, Py_ssize_t n) noexcept:
    return (n * 131 + at[0] * 31 + at[n >> 1] * 7 + at[n - 1]) & (_SLOTS - 1)


cdef class Texts:
    """Short texts that were read before, by their octets: making them costs more than this.

    As many as there are slots at most: what comes later takes the place of what came before, so a
    peer that invents texts makes this useless for itself and no larger than 0.5 MB.
    """

    def __init__(self):
        self.slots = [(b"", None)] * _SLOTS

    cdef object find(self, const unsigned char *at, Py_ssize_t n):
        """Give the text of the octets there, or None."""
        cdef PyObject *entry
        cdef PyObject *known
        if 0 < n <= _MAX_TEXT:
            entry = PyList_GET_ITEM(self.slots, slot_of(at, n))
            known = PyTuple_GET_ITEM(<tuple>entry, 0)
            if (
                PyBytes_GET_SIZE(<bytes>known) == n
                and memcmp(PyBytes_AS_STRING(<bytes>known), at, n) == 0
            ):
                return <object>PyTuple_GET_ITEM(<tuple>entry, 1)
        return None

    cdef int put(self, const unsigned char *at, Py_ssize_t n, text) except -1:
        """Remember the text of the octets there, if it is a short one."""
        if 0 < n <= _MAX_TEXT:
            # One object, so that no thread sees octets with another's text.
            self.slots[slot_of(at, n)] = (<bytes>(<const char *>at)[:n], text)
        return 0

    cdef object recall(self, bytes buf, Py_ssize_t start, Py_ssize_t stop):
        """Give the text of these octets, or None."""
        if not 0 <= start <= stop <= PyBytes_GET_SIZE(buf):
            return None
        return self.find(<const unsigned char *>PyBytes_AS_STRING(buf) + start, stop - start)

    cdef int keep(self, bytes buf, Py_ssize_t start, Py_ssize_t stop, text) except -1:
        """Remember the text of these octets, if it is a short one."""
        if 0 <= start <= stop <= PyBytes_GET_SIZE(buf):
            self.put(<const unsigned char *>PyBytes_AS_STRING(buf) + start, stop - start, text)
        return 0


SYMBOLS = Texts()
cdef Texts _SYMBOLS = SYMBOLS
cdef Texts _KEYS = Texts()
cdef Texts _TOKENS = Texts()

cdef type _Symbol = str
cdef type _Timestamp = int
cdef type _Int = int
cdef type _UInt = int
cdef type _ULong = int
cdef list _UBYTES = []
cdef list _UINTS = []
cdef list _ULONGS = []
cdef list _INTS = []


def know(symbol, timestamp, int_, uint, ulong, ubytes, uints, ulongs, ints):
    """Tell the quick readers what to make values of, and the values of one octet.

    Raises:
        ValueError: there are not 256 values of one octet.
    """
    global _Symbol, _Timestamp, _Int, _UInt, _ULong, _UBYTES, _UINTS, _ULONGS, _INTS
    if any([len(values) != 256 for values in (ubytes, uints, ulongs, ints)]):
        raise ValueError("there are 256 values of one octet")
    _Symbol, _Timestamp, _Int, _UInt, _ULong = symbol, timestamp, int_, uint, ulong
    _UBYTES, _UINTS, _ULONGS, _INTS = ubytes, uints, ulongs, ints


# The quick readers.

cdef inline object utf8(const unsigned char *at, Py_ssize_t n):
    """Give the text of these octets, or None where they are no UTF-8."""
    try:
        return PyUnicode_DecodeUTF8(<const char *>at, n, NULL)
    except UnicodeDecodeError:
        return None


cdef object symbol_of(const unsigned char *at, Py_ssize_t n):
    made = _SYMBOLS.find(at, n)
    if made is None:
        text = ascii_of(at, n)
        if text is not None:
            made = _Symbol.__new__(_Symbol, text)
            _SYMBOLS.put(at, n, made)
    return made


cdef object token_of(const unsigned char *at, Py_ssize_t n):
    made = _TOKENS.find(at, n)
    if made is None:
        made = ascii_of(at, n)
        if made is not None:
            _TOKENS.put(at, n, made)
    return made


cdef object key_of(const unsigned char *at, Py_ssize_t n):
    made = _KEYS.find(at, n)
    if made is None:
        made = utf8(at, n)
        if made is not None:
            _KEYS.put(at, n, made)
    return made


cdef object ascii_of(const unsigned char *at, Py_ssize_t n):
    try:
        return PyUnicode_DecodeASCII(<const char *>at, n, NULL)
    except UnicodeDecodeError:
        return None


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


cdef class Cursor:
    """A position in octets, and the quick readers.

    The quick readers take the encodings that nearly every message is made of. What they give is
    what `Reader` gives; where anything is out of the ordinary they give None and leave the cursor
    where it was, so that `Reader` reads instead and says what is wrong.
    """

    cdef bint begin_compound(self, int short_code, Compound *found) noexcept:
        """Find what a list or map holds; False where that is out of the ordinary."""
        cdef const unsigned char *base = <const unsigned char *>PyBytes_AS_STRING(self.buf)
        cdef const unsigned char *at
        cdef Py_ssize_t left, size
        if not 0 <= self.pos <= self.end <= PyBytes_GET_SIZE(self.buf) or self.depth < 1:
            return False
        at = base + self.pos
        left = self.end - self.pos
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
        # Every value takes an octet at least, so this bounds the count before anything is read.
        return found.count <= found.stop - found.at and found.count <= self.items

    cdef int end_compound(self, Compound *found) except -1:
        """Pass over a compound that was read."""
        self.pos = found.stop - <const unsigned char *>PyBytes_AS_STRING(self.buf)
        self.items -= found.count
        return 0

    cdef object quick_fields(self, Layout layout):
        """Read the list of a composite into its class, or give None."""
        cdef Compound found
        cdef const unsigned char *at
        cdef const unsigned char *stop
        cdef const unsigned char *actions
        cdef Py_ssize_t i, n
        cdef int code, action
        if (
            not layout.direct
            or layout.actions is None
            or not self.begin_compound(0xC0, &found)
            or found.count > layout.count
        ):
            return None
        actions = <const unsigned char *>PyBytes_AS_STRING(layout.actions)
        at = found.at
        stop = found.stop
        made = amqp_bare(layout.cls)
        for i in range(found.count):
            if at >= stop:
                return None
            code = at[0]
            at += 1
            action = actions[i << 8 | code]
            if action == 1:  # null
                continue
            if action == 2 or action == 3 or action == 10:  # str8, sym8, vbin8
                if at >= stop:
                    return None
                n = at[0]
                at += 1
                if n > stop - at:
                    return None
                if action == 2:
                    value = utf8(at, n)
                elif action == 3:
                    value = token_of(at, n)
                else:
                    value = <bytes>(<const char *>at)[:n]
                if value is None:
                    return None
                at += n
            elif action == 4:  # true
                value = True
            elif action == 5:  # false
                value = False
            elif action == 6:  # an unsigned octet
                if at >= stop:
                    return None
                value = <int>at[0]
                at += 1
            elif action == 7:  # timestamp
                if stop - at < 8:
                    return None
                value = signed64(at)
                at += 8
            elif action == 8:  # uint
                if stop - at < 4:
                    return None
                value = amqp_load32(<const char *>at)
                at += 4
            elif action == 9:  # uint0, ulong0
                value = 0
            else:
                return None
            amqp_set(made, layout.offsets[i], <PyObject *>value)
        if at != stop:
            return None
        for i in range(layout.count):
            if amqp_slot(made, layout.offsets[i])[0] == NULL:
                amqp_set(made, layout.offsets[i], PyTuple_GET_ITEM(layout.blank, i))
        self.end_compound(&found)
        return made

    cdef object quick_mapping(self, type cls, bint symbols):
        """Read the map of a section into its class, or give None."""
        cdef Compound found
        cdef const unsigned char *at
        cdef const unsigned char *stop
        cdef Py_ssize_t i, n
        cdef int code, wanted = 0xA3 if symbols else 0xA1
        if not self.begin_compound(0xC1, &found) or found.count & 1:
            return None
        at = found.at
        stop = found.stop
        made = cls.__new__(cls)
        for i in range(found.count >> 1):
            if stop - at < 2 or at[0] != wanted or at[1] > stop - at - 2:
                return None
            n = at[1]
            key = symbol_of(at + 2, n) if symbols else key_of(at + 2, n)
            at += n + 2
            if key is None or at >= stop:
                return None
            code = at[0]
            at += 1
            if code == 0xA1 or code == 0xA3 or code == 0xA0:
                if at >= stop or at[0] > stop - at - 1:
                    return None
                n = at[0]
                at += 1
                if code == 0xA1:
                    value = utf8(at, n)
                elif code == 0xA3:
                    value = symbol_of(at, n)
                else:
                    value = <bytes>(<const char *>at)[:n]
                if value is None:
                    return None
                at += n
            elif code == 0x81 or code == 0x83 or code == 0x82:
                if stop - at < 8:
                    return None
                if code == 0x81:
                    value = signed64(at)
                elif code == 0x83:
                    value = _Timestamp.__new__(_Timestamp, signed64(at))
                else:
                    value = double64(at)
                at += 8
            elif code == 0x71 or code == 0x70:
                if stop - at < 4:
                    return None
                if code == 0x71:
                    value = _Int.__new__(_Int, signed32(at))
                else:
                    value = _UInt.__new__(_UInt, amqp_load32(<const char *>at))
                at += 4
            elif code == 0x41:
                value = True
            elif code == 0x42:
                value = False
            elif code == 0x40:
                value = None
            elif code == 0x43:
                value = _UINTS[0]
            elif code == 0x44:
                value = _ULONGS[0]
            elif 0x50 <= code <= 0x55 and code != 0x51:
                if at >= stop:
                    return None
                n = at[0]
                at += 1
                if code == 0x55:
                    value = n - 256 if n > 127 else n
                elif code == 0x54:
                    value = _INTS[n]
                elif code == 0x52:
                    value = _UINTS[n]
                elif code == 0x53:
                    value = _ULONGS[n]
                else:
                    value = _UBYTES[n]
            else:
                return None
            PyDict_SetItem(made, key, value)
        # A key that stands twice leaves the dict smaller.
        if at != stop or PyDict_Size(made) != found.count >> 1:
            return None
        self.end_compound(&found)
        return made

    cdef object quick_data(self, Layout layout):
        """Read a binary into the class of a data section, or give None."""
        cdef const unsigned char *at
        cdef Py_ssize_t left, n
        if not 0 <= self.pos <= self.end <= PyBytes_GET_SIZE(self.buf) or not layout.direct:
            return None
        at = <const unsigned char *>PyBytes_AS_STRING(self.buf) + self.pos
        left = self.end - self.pos
        if left >= 2 and at[0] == 0xA0:
            n = at[1]
            at += 2
            left -= 2
        elif left >= 5 and at[0] == 0xB0:
            n = amqp_load32(<const char *>at + 1)
            at += 5
            left -= 5
        else:
            return None
        if n > left or layout.count != 1:
            return None
        made = amqp_bare(layout.cls)
        value = <bytes>(<const char *>at)[:n]
        amqp_set(made, layout.offsets[0], <PyObject *>value)
        self.pos = self.end - left + n
        return made


# Output.

cdef Py_ssize_t _SMALL = 1000
# A compound is begun with room for the header of its long form. The content of a short one is
# moved down, which costs at most 254 octets; the other way round, a large content would move once
# for every compound around it.
cdef Py_ssize_t _LONG_HEADER = 9
cdef Py_ssize_t _SHORT_HEADER = 3


cdef class Output:
    """A run of octets that grows."""

    def __cinit__(self, *_):
        self.memory = self.small
        self.room = _SMALL
        self.large = NULL
        self.size = 0

    def __dealloc__(self):
        Py_XDECREF(self.large)

    cdef int grow(self, Py_ssize_t n) except -1:
        """Make room for n more octets."""
        cdef PyObject *before = self.large
        cdef Py_ssize_t room, size
        if n > PY_SSIZE_T_MAX // 4 - self.size:
            raise MemoryError
        # Twice as much while it is little; what is added to large output is large itself.
        room = self.size + n + (self.size + n if self.size + n < 1 << 20 else (self.size + n) >> 3)
        if before == NULL:
            self.large = amqp_room(NULL, room)
            memcpy(PyBytes_AS_STRING(<bytes>self.large), self.small, self.size)
        else:
            # Where there is no memory, this frees what there was: the output is empty then.
            size = self.size
            self.large = NULL
            self.memory = self.small
            self.room = _SMALL
            self.size = 0
            _PyBytes_Resize(&before, room)
            self.large = before
            self.size = size
        self.memory = PyBytes_AS_STRING(<bytes>self.large)
        self.room = room
        return 0

    cpdef bytes finish(self):
        """Give the octets; the output is empty then."""
        cdef PyObject *made = self.large
        cdef Py_ssize_t size = self.size
        self.large = NULL
        self.memory = self.small
        self.room = _SMALL
        self.size = 0
        if made == NULL:
            return <bytes>self.small[:size]
        _PyBytes_Resize(&made, size)
        octets = <bytes>made
        Py_XDECREF(made)
        return octets

    cdef int add(self, bytes octets) except -1:
        """Append octets."""
        cdef Py_ssize_t n = PyBytes_GET_SIZE(octets)
        if self.room - self.size < n:
            self.grow(n)
        memcpy(self.memory + self.size, PyBytes_AS_STRING(octets), n)
        self.size += n
        return 0

    cdef int copy(self, bytes buf, Py_ssize_t start, Py_ssize_t stop) except -1:
        """Append a part of other octets."""
        if not 0 <= start <= stop <= PyBytes_GET_SIZE(buf):
            raise IndexError("octets outside the input")
        if self.room - self.size < stop - start:
            self.grow(stop - start)
        memcpy(self.memory + self.size, PyBytes_AS_STRING(buf) + start, stop - start)
        self.size += stop - start
        return 0

    cdef bint short_ascii(self, int code, text) except -1:
        """Append a constructor, a length and a text; False if it is long or not ASCII."""
        cdef Py_ssize_t n
        if not amqp_short_ascii(text):
            return False
        n = PyUnicode_GET_LENGTH(text)
        if self.room - self.size < n + 2:
            self.grow(n + 2)
        self.memory[self.size] = <char>code
        self.memory[self.size + 1] = <char>n
        memcpy(self.memory + self.size + 2, PyUnicode_DATA(text), n)
        self.size += n + 2
        return True

    cdef int number(self, int code, int width, long long number) except -1:
        """Append a constructor and a number of this many octets, in two's complement."""
        cdef int i
        cdef unsigned long long left = <unsigned long long>number
        if not 0 <= width <= 8:
            raise ValueError("a number has at most eight octets")
        if self.room - self.size < 9:
            self.grow(9)
        self.memory[self.size] = <char>code
        for i in range(width):
            self.memory[self.size + width - i] = <char>(left & 255)
            left >>= 8
        self.size += width + 1
        return 0

    cdef int double(self, double number) except -1:
        """Append a double."""
        if self.room - self.size < 9:
            self.grow(9)
        self.memory[self.size] = <char>0x82
        PyFloat_Pack8(number, self.memory + self.size + 1, 0)
        self.size += 9
        return 0

    cdef Py_ssize_t begin_compound(self) except -1:
        """Leave room for the header of a compound; give the mark to end it with."""
        if self.room - self.size < _LONG_HEADER:
            self.grow(_LONG_HEADER)
        self.size += _LONG_HEADER
        return self.size

    cdef bint end_compound(self, Py_ssize_t mark, int code, Py_ssize_t count) except -1:
        """Write the header of a compound; the code is that of its short form.

        False if the compound is too large for AMQP.
        """
        cdef Py_ssize_t size = self.size - mark
        cdef char *head
        if mark < _LONG_HEADER or size < 0:
            raise IndexError("no compound was begun there")
        head = self.memory + mark - _LONG_HEADER
        # The size counts the count's own octets: one here, four in the long form.
        if size < 255 and count <= 255:
            head[0] = <char>code
            head[1] = <char>(size + 1)
            head[2] = <char>count
            memmove(head + _SHORT_HEADER, self.memory + mark, size)
            self.size -= _LONG_HEADER - _SHORT_HEADER
            return True
        if size > 0xFFFFFFFFLL - 4:
            return False
        head[0] = <char>(code + 0x10)
        store32(head + 1, <unsigned int>(size + 4))
        store32(head + 5, <unsigned int>count)
        return True

    cdef int drop_compound(self, Py_ssize_t mark) except -1:
        """Take back a compound and what it holds."""
        if not _LONG_HEADER <= mark <= self.size:
            raise IndexError("no compound was begun there")
        self.size = mark - _LONG_HEADER
        return 0


cdef inline void store32(char *at, unsigned int number) noexcept:
    at[0] = <char>(number >> 24)
    at[1] = <char>(number >> 16 & 255)
    at[2] = <char>(number >> 8 & 255)
    at[3] = <char>(number & 255)


# Attributes.

cdef class Layout:
    """Where a class with slots keeps its attributes."""

    def __init__(self, cls, names, blank=(), actions=b"", few=False):  # few: for the other one
        self.cls = cls
        self.names = tuple(names)
        self.blank = tuple(blank)
        # Both are read without looking at their lengths again.
        fits = len(self.blank) == len(self.names) and len(actions) == len(self.names) << 8
        self.actions = actions if fits else None
        self.count = len(self.names)
        self.set_all = filler(self.names)
        self.get_all = attrgetter(*self.names) if self.count > 1 else None
        self.direct = self.count <= 32 and cls.__new__ is object.__new__
        if self.direct:
            for i, name in enumerate(self.names):
                self.offsets[i] = amqp_offset(getattr(cls, name, None), cls)
                if self.offsets[i] < 0:
                    self.direct = False

    cdef tuple values(self, made):
        """Give the attributes in order; AttributeError where one was deleted."""
        cdef Py_ssize_t i
        cdef PyObject *held
        cdef tuple found
        if self.direct and type(made) is self.cls:
            found = PyTuple_New(self.count)
            for i in range(self.count):
                held = amqp_slot(made, self.offsets[i])[0]
                if held == NULL:
                    break
                Py_INCREF(<object>held)
                PyTuple_SET_ITEM(found, i, <object>held)
            else:
                return found
        if self.get_all is None:
            return tuple([getattr(made, name) for name in self.names])
        return self.get_all(made)

    cdef int fill(self, made, list values) except -1:
        """Set the attributes in order, without converters; there are as many values."""
        cdef Py_ssize_t i
        if self.direct and type(made) is self.cls and PyList_GET_SIZE(values) == self.count:
            for i in range(self.count):
                amqp_set(made, self.offsets[i], PyList_GET_ITEM(values, i))
        else:
            # A subclass may have its own ways of setting an attribute.
            self.set_all(made, values)
        return 0

    cdef object build(self, list values):
        """Make an instance with these attributes."""
        cls = self.cls
        made = amqp_bare(cls) if self.direct else cls.__new__(cls)
        self.fill(made, values)
        return made


cdef class FieldOutput(Output):
    """Output of AMQP 0-9-1: texts and tables stand behind their lengths."""

    cdef bint text(self, int width, text) except -1:
        """Append a length of 1 or 4 bytes and a str of ASCII; False, and nothing, for all else."""
        cdef Py_ssize_t size = ascii_size(text)
        cdef char *at
        if not 0 <= size <= (255 if width == 1 else 0x7FFF_FFFF):
            return False
        if self.room - self.size < size + 4:
            self.grow(size + 4)
        at = self.memory + self.size
        if width == 1:
            at[0] = <char>size
            at += 1
        else:
            at[0] = <char>(size >> 24)
            at[1] = <char>(size >> 16 & 255)
            at[2] = <char>(size >> 8 & 255)
            at[3] = <char>(size & 255)
            at += 4
        memcpy(at, PyUnicode_DATA(text), size)
        self.size = at - self.memory + size
        return True

    cdef Py_ssize_t begin_table(self) except -1:
        """Leave room for a length of four bytes; return the mark to end the table with."""
        if self.room - self.size < 4:
            self.grow(4)
        self.size += 4
        return self.size

    cdef bint end_table(self, Py_ssize_t start) except -1:
        """Write the length of what was appended since; False if it is too large."""
        cdef Py_ssize_t size = self.size - start
        cdef char *at
        if start < 4 or size < 0:
            raise IndexError("no table was begun there")
        if size > 0xFFFF_FFFF:
            return False
        at = self.memory + start - 4
        at[0] = <char>(size >> 24)
        at[1] = <char>(size >> 16 & 255)
        at[2] = <char>(size >> 8 & 255)
        at[3] = <char>(size & 255)
        return True


cdef class Text:
    """Questions about texts."""

    @staticmethod
    cdef bint is_plain(text, Py_ssize_t most):
        """Whether this is a str of ASCII without NUL, of so many characters at most."""
        return plain_text(text, most)
