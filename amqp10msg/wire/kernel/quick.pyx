# cython: language_level=3, boundscheck=True, wraparound=False
"""Sections in, the quick way, in C: `quick.py` says the same in Python, and what they are for."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_SetItem, PyDict_Size
from libc.string cimport memcpy

from amqp10msg.wire.kernel.sections cimport Spec
from amqp10msg.wire.kernel.twin cimport TEXTS, Layout, amqp_load32, amqp_load64

from amqp10msg.wire.kernel.codes import OF_OCTET
from amqp10msg.wire.primitives import Int, Timestamp, UInt

cdef extern from "Python.h":
    object PyUnicode_DecodeUTF8(const char *octets, Py_ssize_t n, const char *errors)
    object PyUnicode_DecodeASCII(const char *octets, Py_ssize_t n, const char *errors)

cdef type _Int = Int
cdef type _Timestamp = Timestamp
cdef type _UInt = UInt
cdef list _OF_OCTET = OF_OCTET


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


cdef class QuickReader(ValueReader):
    """A cursor that reads usual sections fast."""

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
        # Every value takes a byte at least, so this bounds the count before anything is read.
        return found.count <= found.stop - found.at and found.count <= self.items

    cdef int end_compound(self, Compound *found) except -1:
        """Pass over a compound that was read."""
        self.pos = found.stop - <const unsigned char *>PyBytes_AS_STRING(self.buf)
        self.items -= found.count
        return 0

    cdef object quick_fields(self, Spec spec):
        """Read the list of a composite into its class, or return None."""
        cdef Compound found
        cdef const unsigned char *at
        cdef const unsigned char *stop
        cdef const unsigned char *usual = <const unsigned char *>PyBytes_AS_STRING(spec.usual)
        cdef Layout layout = spec.layout
        cdef Py_ssize_t i, n
        cdef int code
        if (
            not self.begin_compound(0xC0, &found)
            or found.count > layout.count
            or PyBytes_GET_SIZE(spec.usual) != layout.count << 8
            or not layout.direct()
        ):
            return None
        at = found.at
        stop = found.stop
        made = layout.bare()
        try:
            for i in range(found.count):
                if at >= stop or not usual[i << 8 | at[0]]:
                    return None
                code = at[0]
                at += 1
                if code == 0x40:
                    continue
                if code == 0xA1 or code == 0xA3 or code == 0xA0:
                    if at >= stop:
                        return None
                    n = at[0]
                    at += 1
                    if n > stop - at:
                        return None
                    if code == 0xA1:
                        value = PyUnicode_DecodeUTF8(<const char *>at, n, NULL)
                    elif code == 0xA3:
                        value = PyUnicode_DecodeASCII(<const char *>at, n, NULL)
                    else:
                        value = <bytes>(<const char *>at)[:n]
                    at += n
                elif code == 0x41:
                    value = True
                elif code == 0x42:
                    value = False
                elif 0x50 <= code <= 0x53:
                    if at >= stop:
                        return None
                    value = <int>at[0]
                    at += 1
                elif code == 0x83:
                    if stop - at < 8:
                        return None
                    value = signed64(at)
                    at += 8
                elif code == 0x70:
                    if stop - at < 4:
                        return None
                    value = amqp_load32(<const char *>at)
                    at += 4
                else:  # uint0, ulong0
                    value = 0
                layout.hold(made, i, value)
        except UnicodeDecodeError:
            return None
        if at != stop:
            return None
        layout.complete(made, spec.defaults)
        self.end_compound(&found)
        return made

    cdef object quick_mapping(self, type cls, int key_code):
        """Read the map of a section into its class, or return None."""
        cdef Compound found
        cdef const unsigned char *at
        cdef const unsigned char *stop
        cdef Py_ssize_t i, n
        cdef int code
        if not self.begin_compound(0xC1, &found) or found.count & 1:
            return None
        at = found.at
        stop = found.stop
        made = cls.__new__(cls)
        try:
            for i in range(found.count >> 1):
                if stop - at < 2 or at[0] != key_code or at[1] > stop - at - 2:
                    return None
                n = at[1]
                key = TEXTS.key(at + 2, n) if key_code == 0xA1 else TEXTS.symbol(at + 2, n)
                at += n + 2
                if at >= stop:
                    return None
                code = at[0]
                at += 1
                if code == 0xA1 or code == 0xA3 or code == 0xA0:
                    if at >= stop or at[0] > stop - at - 1:
                        return None
                    n = at[0]
                    at += 1
                    if code == 0xA1:
                        value = PyUnicode_DecodeUTF8(<const char *>at, n, NULL)
                    elif code == 0xA3:
                        value = TEXTS.symbol(at, n)
                    else:
                        value = <bytes>(<const char *>at)[:n]
                    at += n
                elif 0x81 <= code <= 0x83:
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
                elif 0x50 <= code <= 0x55:
                    if at >= stop:
                        return None
                    n = at[0]
                    at += 1
                    if code == 0x55:
                        value = n - 256 if n > 127 else n
                    else:
                        value = (<list>_OF_OCTET[code - 0x50])[n]
                else:
                    return None
                PyDict_SetItem(made, key, value)
        except UnicodeDecodeError:
            return None
        # A key that stands twice leaves the dict smaller.
        if at != stop or PyDict_Size(made) != found.count >> 1:
            return None
        self.end_compound(&found)
        return made

    cdef object quick_data(self, Layout layout):
        """Read a binary into the class of a data section, or return None."""
        cdef const unsigned char *at
        cdef Py_ssize_t left, n
        if not 0 <= self.pos <= self.end <= PyBytes_GET_SIZE(self.buf):
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
        if n > left:
            return None
        value = <bytes>(<const char *>at)[:n]
        if layout.direct():
            made = layout.bare()
            layout.hold(made, 0, value)
        else:
            made = layout.build([value])
        self.pos = self.end - left + n
        return made
