# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: annotation_typing=False
"""The kernel of `decode`: from the octets of messages to Arrow's buffers, without objects between.

Compiled only, and so in Cython's own language; `_plain` does the same where it is not. A message is
read once, and what is read is written to the columns on the way. Whatever is not known to be right
(an error, a rare encoding, very many entries) makes the row an odd one: what it wrote is taken
back, it is left null here, and `_plain` reads it. So an error's reason is told in one place only.

Every size is compared with what is left before it is used, as in `_wire`: a cursor never passes the
`stop` it was given, and no `stop` passes the message's end. SPARE octets behind a message can be
read, whatever they are (the last messages of an array are read from a copy): so constructors, sizes
and numbers are read first, sixteen octets at once, and compared with what is left before they
count. Columns grow before they are written to. Numbers are written as the machine has them, which
is what Arrow's buffers are.

Messages of one array mostly have the same keys in their maps. So those of the map before are kept
at hand, with what is known of them: a key that stands where it stood is text, and like no other.

What is finished goes to Arrow by way of its C data interface, with its memory.
"""

import sys

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset
from cpython.pythread cimport (
    NOWAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_release_lock,
    PyThread_type_lock,
)

from amqp10msg.columns._cells import FIRST_MS, LAST_MS
from amqp10msg.primitives import FORMAT_CODES

cdef extern from *:
    """
    #if defined(__GNUC__)
    /* GCC takes a function that only prefetches for one without effect, and leaves its call out. */
    #define amqp10msg_prefetch(p, w) \\
        (__extension__ ({ __builtin_prefetch((const void *) (p), w); __asm__ volatile (""); }))
    #define amqp10msg_will_read(p) amqp10msg_prefetch(p, 0)
    #define amqp10msg_will_write(p) amqp10msg_prefetch(p, 1)
    #else
    #define amqp10msg_will_read(p) ((void) (p))
    #define amqp10msg_will_write(p) ((void) (p))
    #endif
    """
    void will_read "amqp10msg_will_read"(uintptr_t) noexcept nogil
    void will_write "amqp10msg_will_write"(uintptr_t) noexcept nogil

ctypedef const uint8_t* octets

# Kinds of columns. A timestamp is an INT64; a LIST has its offsets, and its children elsewhere.
BOOL, INT16, INT32, INT64, TEXT = range(5)
cdef enum:
    _BOOL = 0
    _INT16 = 1
    _INT32 = 2
    _INT64 = 3
    _TEXT = 4
    _LIST = 5
    _WIDE = 6
# The octets of a cell; of a BOOL it is a bit.
cdef int[7] WIDTHS = [0, 2, 4, 8, 4, 4, 16]

# What text has to be.
cdef enum:
    ANY
    ASCII
    UTF8

# How a field is read.
cdef enum:
    TEXTUAL
    IDENTIFIER
    BOOLEAN
    UBYTE
    UINT
    TIMESTAMP
    # The code for short ones where it is no text: no octet is.
    NO_CODE = 0x1000
# By the kinds that `_wire` numbers: the way, the code for short ones, the rule.
FIELD_WAYS = {
    2: (BOOLEAN, NO_CODE, ANY),
    3: (UBYTE, NO_CODE, ANY),
    5: (UINT, NO_CODE, ANY),
    17: (TIMESTAMP, NO_CODE, ANY),
    19: (TEXTUAL, 0xA0, ANY),
    20: (TEXTUAL, 0xA1, UTF8),
    21: (TEXTUAL, 0xA3, ASCII),
    27: (IDENTIFIER, 0xA1, UTF8),
    28: (TEXTUAL, 0xA1, UTF8),
}

# The octets of notations.
cdef enum:
    QUOTE = 34
    PLUS = 43
    COMMA = 44
    MINUS = 45
    POINT = 46
    ZERO = 48
    EXPONENT = 69
    BRACKET = 91
    BACKSLASH = 92
    BRACKET_END = 93
# By octet: the one behind the backslash, where JSON has a short form.
cdef uint8_t[128] SHORT_FORMS

cdef enum:
    MAX_FIELDS = 32
    MAX_PAIRS = 128
    # Of what is nested: the pairs of a map, and how deep it goes.
    MAX_NESTED_PAIRS = 64
    MAX_NESTED = 16
    # After so many rows, it is foreseen what the others take.
    SEEN = 64
    # The octets behind a message that can be read: a constructor and what is read at once.
    SPARE = 32
    # What the processor fetches at once, and how far ahead it is asked to.
    LINE = 64
    AHEAD = 192
    AHEAD_OF_READING = 1024

cdef uint64_t HIGH = 0x8080808080808080
# The largest of Arrow's 32-bit offsets.
cdef Py_ssize_t LARGEST = 2**31 - 1
cdef int64_t FIRST = FIRST_MS
cdef int64_t LAST = LAST_MS
# Where the low half of a decimal128 is.
cdef int LOW_WORD = 0 if sys.byteorder == "little" else 1

# How a value is read: what is no code, or has an own way; null; what is written as `l`, which is
# booleans and numbers but ulong; ulong as `u`; double; text and binary.
cdef enum:
    OTHER
    NOTHING
    NUMBER
    WORD
    REAL
    OCTETS

# By format code: the octets that follow where the width is fixed (255 for what is no code, or is
# described), how many bits of eight octets those are not, the way, the rule of text, the name of
# the type with its size; and for numbers which bits to keep, and which to set.
cdef struct Code:
    uint8_t width
    uint8_t shift
    uint8_t way
    uint8_t rule
    uint8_t name_size
    uint8_t added
    uint64_t kept
    uint8_t[16] name

cdef Code[256] CODES
# By 8 + n: the bits of the first n octets of eight, as they lie in memory, for n from -8 to 16.
cdef uint64_t[25] WORD_BITS
# By section: the bits of those that may follow it; the first for the beginning.
cdef uint32_t[10] FOLLOWERS = [0x1FF, 0x1FE, 0x1FC, 0x1F8, 0x1F0, 0x1E0, 0x120, 0x140, 0x100, 0]


# Memory. Batches come one after the other and are alike. To take fresh pages from the system for
# each, and to give them back, costs as much as the decoding: so what was freed is kept for the next
# batch, up to these bounds. Arrow frees with the GIL or without, on any thread. Whoever finds the
# lock taken goes on without what is kept; nobody waits, not even the child of a fork.

# What stands before the octets that are given away. What is kept lies in lists by its size, four
# for each power of two: whatever lies in a list is as large as all that asks for it.
cdef struct Head:
    Head* next
    Py_ssize_t size

cdef enum:
    SMALLEST_KEPT = 1 << 11
    MOST_KEPT = 1 << 25

cdef Head* kept_lists[256]
cdef Py_ssize_t kept_size = 0
cdef PyThread_type_lock kept_lock = PyThread_allocate_lock()


cdef inline int list_of(Py_ssize_t* size) noexcept nogil:
    """The list for a size, which becomes the one of all that lie there."""
    cdef int power = 0
    cdef Py_ssize_t quarters = size[0] - 1
    while quarters >= 8:
        quarters >>= 1
        power += 1
    size[0] = quarters + 1 << power
    return 4 * power + <int> (quarters & 3)


cdef inline bint take_kept_lock() noexcept nogil:
    return kept_lock != NULL and PyThread_acquire_lock(kept_lock, NOWAIT_LOCK) != 0


cdef void* grab(Py_ssize_t size) noexcept nogil:
    """Allocate memory, kept or fresh; NULL where there is none."""
    global kept_size
    cdef Head* head = NULL
    cdef int number
    if size >= SMALLEST_KEPT:
        number = list_of(&size)
        if take_kept_lock():
            head = kept_lists[number]
            if head != NULL:
                kept_lists[number] = head.next
                kept_size -= size
            PyThread_release_lock(kept_lock)
    if head == NULL:
        head = <Head*> malloc(sizeof(Head) + size)
        if head == NULL:
            return NULL
        head.size = size
    return head + 1


cdef void release(void* data) noexcept nogil:
    """Free what was allocated so, if it is anything, or keep it."""
    global kept_size
    cdef Head* head
    cdef Py_ssize_t size
    cdef int number
    if data == NULL:
        return
    head = <Head*> data - 1
    size = head.size
    if size >= SMALLEST_KEPT and take_kept_lock():
        number = list_of(&size)
        if size <= MOST_KEPT - kept_size:
            head.next = kept_lists[number]
            kept_lists[number] = head
            kept_size += size
            head = NULL
        PyThread_release_lock(kept_lock)
    free(head)


cdef void* grab_zeros(Py_ssize_t size) noexcept nogil:
    cdef void* data = grab(size)
    if data != NULL:
        memset(data, 0, size)
    return data


cdef bint resize(void** data, Py_ssize_t before, Py_ssize_t after, bint zeros) noexcept nogil:
    """Give memory more room, what is new as zeros where asked for; False where there is none."""
    cdef void* made = grab(after)
    if made == NULL:
        return False
    if before:
        memcpy(made, data[0], before)
    release(data[0])
    if zeros:
        memset(<uint8_t*> made + before, 0, after - before)
    data[0] = made
    return True


# A batch is written in fifty places in turn, each a little further on: too many for the processor to
# see what comes next. Where batches do not stay in its caches (from some 2 MB of messages), waiting
# for memory would take nearly as long as all else. So it is told: whoever writes asks for the line
# that is AHEAD. That may lie anywhere, as nothing is read.


cdef inline void will_write_at(const void* begin, Py_ssize_t size) noexcept nogil:
    """Ask for what is going to be written behind so many octets."""
    will_write(<uintptr_t> begin + size + AHEAD)


cdef inline void will_write_lines(const void* begin, Py_ssize_t size, Py_ssize_t n) noexcept nogil:
    """The same where n octets are written at a time; more than eight lines need no help."""
    cdef Py_ssize_t i = 0
    n = min(n, 8 * LINE)
    while i < n:
        will_write_at(begin, size + i)
        i += LINE


cdef inline void will_read_lines(octets begin, Py_ssize_t n) noexcept nogil:
    """Ask for as many octets, some messages ahead, as this one has; no more than a page."""
    cdef Py_ssize_t i = 0
    n = min(n, 4096)
    while i < n:
        will_read(<uintptr_t> begin + i + AHEAD_OF_READING)
        i += LINE


# Octets.


cdef inline uint32_t u32(octets p) noexcept nogil:
    return (<uint32_t> p[0] << 24) | (<uint32_t> p[1] << 16) | (<uint32_t> p[2] << 8) | p[3]


cdef inline uint64_t u64(octets p) noexcept nogil:
    return (<uint64_t> u32(p) << 32) | u32(p + 4)


cdef inline uint64_t word_at(octets p) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, p, 8)
    return word


cdef inline void put_word(uint8_t* to, uint64_t word) noexcept nogil:
    memcpy(to, &word, 8)


cdef inline uint64_t copied(uint8_t* to, octets p, Py_ssize_t n) noexcept nogil:
    """Copy n octets, with up to 16 more that `to` has room for; 0 where all n are ASCII."""
    cdef uint64_t high = 0
    cdef uint64_t first = word_at(p)
    cdef uint64_t second = word_at(p + 8)
    while n > 16:
        put_word(to, first)
        put_word(to + 8, second)
        high |= first | second
        p += 16
        to += 16
        n -= 16
        first = word_at(p)
        second = word_at(p + 8)
    put_word(to, first)
    put_word(to + 8, second)
    return (high | (first & WORD_BITS[8 + n]) | (second & WORD_BITS[n])) & HIGH


cdef inline bint is_ascii(octets p, Py_ssize_t n) noexcept nogil:
    """Tell whether n octets are ASCII."""
    cdef uint64_t high = 0
    while n > 16:
        high |= word_at(p) | word_at(p + 8)
        p += 16
        n -= 16
    high |= (word_at(p) & WORD_BITS[8 + n]) | (word_at(p + 8) & WORD_BITS[n])
    return not high & HIGH


cdef inline bint is_same(octets p, octets other, Py_ssize_t n) noexcept nogil:
    """Tell whether n octets are the same in two places."""
    while n > 8:
        if word_at(p) != word_at(other):
            return False
        p += 8
        other += 8
        n -= 8
    return not (word_at(p) ^ word_at(other)) & WORD_BITS[8 + n]


cdef bint is_utf8(octets p, Py_ssize_t n) noexcept nogil:
    """Tell whether octets are UTF-8 as Python has it: nothing overlong, no surrogates."""
    cdef Py_ssize_t i = 0
    cdef int c
    cdef int d
    while i < n:
        if n - i >= 8 and not word_at(p + i) & HIGH:
            i += 8
            continue
        c = p[i]
        if c < 0x80:
            i += 1
        elif c < 0xC2:
            return False
        elif c < 0xE0:
            if n - i < 2 or (p[i + 1] & 0xC0) != 0x80:
                return False
            i += 2
        elif c < 0xF0:
            if n - i < 3:
                return False
            d = p[i + 1]
            if (d & 0xC0) != 0x80 or (p[i + 2] & 0xC0) != 0x80:
                return False
            if (c == 0xE0 and d < 0xA0) or (c == 0xED and d > 0x9F):
                return False
            i += 3
        elif c < 0xF5:
            if n - i < 4:
                return False
            d = p[i + 1]
            if (d & 0xC0) != 0x80 or (p[i + 2] & 0xC0) != 0x80 or (p[i + 3] & 0xC0) != 0x80:
                return False
            if (c == 0xF0 and d < 0x90) or (c == 0xF4 and d > 0x8F):
                return False
            i += 4
        else:
            return False
    return True


cdef inline bint is_text(octets p, Py_ssize_t n, int rule) noexcept nogil:
    return rule == ANY or is_ascii(p, n) or (rule == UTF8 and is_utf8(p, n))


cdef inline int64_t number_of(octets p, int code) noexcept nogil:
    """The number that a value of way NUMBER is."""
    return (<int64_t> u64(p) >> CODES[code].shift) & <int64_t> CODES[code].kept | CODES[code].added


cdef inline uint64_t word_of(octets p, int code) noexcept nogil:
    """The number that a value of way WORD is."""
    return u64(p) >> CODES[code].shift & CODES[code].kept


# Columns.

# A column of rows, or a member of the structs of values. It has no memory before its first cell
# that is not null.
#
# Of most columns of rows, all cells are there or none. So theirs are written one after the other,
# and what is noted is a gap: `written` says how many cells are (-1 where they have no memory), and
# `bits` which of them are null; NULL where none is. Of the members of a value most are null: `bits`
# says which are not, and the cells of the others are zeros. There `written` is about the offsets,
# which are made up for in the same way.
#
# Of texts, `size` is how many octets the cells hold, and `data` has `room` for them; of lists, how
# many items, which are elsewhere.
cdef struct Column:
    int kind
    Py_ssize_t slots
    uint8_t* bits
    uint8_t* cells
    Py_ssize_t written
    uint8_t* data
    Py_ssize_t size
    Py_ssize_t room


cdef inline void set_bit(uint8_t* bits, Py_ssize_t i) noexcept nogil:
    bits[i >> 3] |= <uint8_t> (1 << (i & 7))


cdef inline Py_ssize_t bits_of(Py_ssize_t slots) noexcept nogil:
    """The octets of a bitmap; whole words, so that they can be counted as such."""
    return (slots + 63) // 64 * 8


cdef inline Py_ssize_t cells_of(int kind, Py_ssize_t slots) noexcept nogil:
    """The octets of so many cells."""
    if kind == _BOOL:
        return bits_of(slots)
    if kind == _TEXT or kind == _LIST:
        return 4 * (slots + 1)
    return WIDTHS[kind] * slots


cdef bint widen(Column* column, Py_ssize_t slots) noexcept nogil:
    """Give a column of rows its cells; False where there is no memory."""
    if not resize(<void**> &column.cells, 0, cells_of(column.kind, slots), column.kind == _BOOL):
        return False
    column.slots = slots
    column.written = 0
    return True


cdef bint widen_member(Column* column, Py_ssize_t slots) noexcept nogil:
    """Give a member so many cells, which are null; False where there is no memory."""
    cdef Py_ssize_t before = column.slots
    cdef Py_ssize_t cells = cells_of(column.kind, before) if column.cells != NULL else 0
    # Each is set as soon as it is moved, so that all of it can be freed where the next fails.
    if not resize(<void**> &column.bits, bits_of(before), bits_of(slots), True):
        return False
    # Offsets are written before they are read.
    if not resize(
        <void**> &column.cells, cells, cells_of(column.kind, slots), column.kind != _TEXT
    ):
        return False
    column.slots = slots
    return True


cdef bint leave_out(Column* column, Py_ssize_t row) noexcept nogil:
    """Let the rows up to this one be null; False where there is no memory."""
    cdef Py_ssize_t i
    cdef Py_ssize_t width = WIDTHS[column.kind]
    if column.bits == NULL and not resize(<void**> &column.bits, 0, bits_of(column.slots), True):
        return False
    for i in range(column.written, row):
        set_bit(column.bits, i)
    if column.kind == _TEXT or column.kind == _LIST:
        for i in range(column.written, row):
            (<int32_t*> column.cells)[i] = <int32_t> column.size
    else:
        memset(column.cells + width * column.written, 0, width * (row - column.written))
    column.written = row
    return True


cdef bint make_room(Column* column, Py_ssize_t n) noexcept nogil:
    """Make room for n more octets and 16 to spare; False where Arrow or the machine has none."""
    cdef Py_ssize_t room
    if n > LARGEST - column.size:
        return False
    if column.room - column.size < n + 16:
        # The first time for as many as `foresee` looks at.
        room = 2 * column.room if column.room else min((n + 16) * min(column.slots, SEEN), 1 << 16)
        room = max(room, column.size + n + 16, 256)
        if not resize(<void**> &column.data, column.size, room, False):
            return False
        column.room = room
    return True


cdef inline bint has_room(Column* column, Py_ssize_t n) noexcept nogil:
    return n + 16 <= column.room - column.size or make_room(column, n)


cdef void clear_bits(uint8_t* bits, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(begin, end):
        bits[i >> 3] &= <uint8_t> ~(1 << (i & 7))


cdef inline void fill_offsets(Column* column, Py_ssize_t end) noexcept nogil:
    """Write the offsets that are missing, up to that where cell `end` of a member begins."""
    cdef int32_t* offsets = <int32_t*> column.cells
    cdef int32_t size = <int32_t> column.size
    cdef Py_ssize_t i = column.written
    while i <= end:
        offsets[i] = size
        i += 1
    column.written = i


cdef void take_back(Column* column, Py_ssize_t row) noexcept nogil:
    """Take back the last row of a column, if it has been written."""
    if column.written <= row:
        return
    column.written = row
    if column.kind == _TEXT or column.kind == _LIST:
        column.size = (<int32_t*> column.cells)[row]
    elif column.kind == _BOOL:
        clear_bits(column.cells, row, row + 1)


cdef void take_members(Column* column, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Make cells of a member null again, behind which there are none."""
    cdef Py_ssize_t width = WIDTHS[column.kind]
    if column.cells == NULL:
        return
    end = min(end, column.slots)
    clear_bits(column.bits, begin, end)
    if column.kind != _TEXT:
        memset(column.cells + width * begin, 0, width * (end - begin))
    elif column.written > begin:
        column.size = (<int32_t*> column.cells)[begin]
        column.written = begin


cdef Py_ssize_t count_bits(uint8_t* bits, Py_ssize_t count) noexcept nogil:
    """How many of so many bits are set. Behind them none is."""
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t i
    cdef uint64_t word
    for i in range(bits_of(count) // 8):
        word = word_at(bits + 8 * i)
        word -= word >> 1 & <uint64_t> 0x5555555555555555
        word = (word & <uint64_t> 0x3333333333333333) + (word >> 2 & <uint64_t> 0x3333333333333333)
        word = word + (word >> 4) & <uint64_t> 0x0F0F0F0F0F0F0F0F
        total += <Py_ssize_t> (word * <uint64_t> 0x0101010101010101 >> 56)
    return total


cdef void free_column(Column* column) noexcept nogil:
    release(column.bits)
    release(column.cells)
    release(column.data)


# The structs of values, one behind the other.
cdef struct Values:
    Py_ssize_t count
    Py_ssize_t room
    # Every struct that is not null has a type. The bits say so of picks; in maps none is null.
    Column types
    Column s
    Column l
    Column d
    Column b
    Column u


# A key: where its constructor is, how many octets it has with that and without, and where the value
# goes that is asked for alone, if it is.
cdef struct Key:
    octets at
    Py_ssize_t whole
    Py_ssize_t n
    Values* pick


# A map section: its rows, its keys, its values.
cdef struct Map:
    bint wanted
    Column rows
    Column keys
    Values values
    # The keys of the map that was read last: all are text, and no two the same. Where the map is
    # wanted, `known_first` is where they begin among the keys of the column.
    Py_ssize_t known_count
    Py_ssize_t known_first
    Key[MAX_PAIRS] known


# An entry of a map that is asked for alone.
cdef struct Pick:
    int section
    octets key
    Py_ssize_t n
    Values values


# How a field of a composite is read, and which columns it goes to (-1, or NULL: none).
cdef struct Field:
    int way
    # What is text: the code for short ones, and what they have to be.
    int small
    int rule
    int column_index
    int second_index
    Column* column
    Column* second
    bint has_fallback
    int64_t fallback


# How a section is read.
cdef enum:
    SKIPPED
    COMPOSITE
    MAPPING
    BODY

# What is asked for, and what has been read of it.
cdef struct Batch:
    # The plan.
    bint[9] needs
    int[9] ways
    bint[9] picked
    Field[MAX_FIELDS] fields
    int[9] first_field
    int[9] field_count
    Map* maps[9]
    Column* body_kind
    Column* body_sections
    Column* body
    Column* body_json
    bint with_parts
    uint8_t[96] kind_names
    uint8_t[3] kind_sizes
    int64_t max_items
    int64_t max_zero_width
    Py_ssize_t max_size
    int max_depth
    Py_ssize_t rows
    # Memory for a message that has no SPARE octets behind it.
    uint8_t* copy
    Py_ssize_t copy_room
    # What the message may still cost, and how deep the values of the map that is read are nested.
    int64_t items
    int64_t zero_width
    int depth
    # The octets that values without any may still be written out to.
    int64_t zero_room
    # There is no more room in a column.
    bint full
    # The columns.
    int column_count
    Column* columns
    Map[4] map_sections
    int pick_count
    Pick* picks
    Column parts
    Py_ssize_t part_room
    int16_t* part_codes
    int64_t* part_starts
    int64_t* part_contents
    int64_t* part_ends
    Column odd


cdef bint full(Batch* b) noexcept nogil:
    b.full = True
    return False


cdef bint prepare(Batch* b, Column* column, Py_ssize_t row, Py_ssize_t n) noexcept nogil:
    """Make a column ready for a cell of n octets in a row: what `put_text` finds missing."""
    if (
        (column.cells == NULL and not widen(column, b.rows))
        or (column.written != row and not leave_out(column, row))
        or (column.kind == _TEXT and not has_room(column, n))
    ):
        return full(b)
    return True


cdef inline void end_text(Column* column, Py_ssize_t row, Py_ssize_t n) noexcept nogil:
    """Let the n octets behind the last ones be a row."""
    (<int32_t*> column.cells)[row] = <int32_t> column.size
    column.written = row + 1
    column.size += n
    will_write_at(column.cells, 4 * row)
    will_write_at(column.data, column.size)


cdef inline bint put_text(
    Batch* b, Column* column, Py_ssize_t row, octets p, Py_ssize_t n, int rule
) noexcept nogil:
    """Write n octets into a row; False where they are not what they must be."""
    cdef uint64_t high
    if n + 16 > column.room - column.size or column.written != row:
        if not prepare(b, column, row, n):
            return False
    high = copied(column.data + column.size, p, n)
    if high and rule != ANY and (rule == ASCII or not is_utf8(p, n)):
        return False
    end_text(column, row, n)
    return True


cdef inline uint8_t* begin_text(
    Batch* b, Column* column, Py_ssize_t row, Py_ssize_t n
) noexcept nogil:
    """Begin a row of n octets: where to write them, or NULL."""
    if n + 16 > column.room - column.size or column.written != row:
        if not prepare(b, column, row, n):
            return NULL
    end_text(column, row, n)
    return column.data + column.size - n


cdef inline bint begin_cell(Batch* b, Column* column, Py_ssize_t row) noexcept nogil:
    """Begin a row of a number or a list."""
    if column.written != row:
        if not prepare(b, column, row, 0):
            return False
    column.written = row + 1
    return True


cdef inline bint begin_list(Batch* b, Column* column, Py_ssize_t row) noexcept nogil:
    if not begin_cell(b, column, row):
        return False
    (<int32_t*> column.cells)[row] = <int32_t> column.size
    return True


cdef inline bint put_bool(Batch* b, Column* column, Py_ssize_t row, bint value) noexcept nogil:
    if not begin_cell(b, column, row):
        return False
    if value:
        set_bit(column.cells, row)
    return True


cdef inline bint put_short(Batch* b, Column* column, Py_ssize_t row, int number) noexcept nogil:
    if not begin_cell(b, column, row):
        return False
    (<int16_t*> column.cells)[row] = <int16_t> number
    return True


cdef inline bint put_int(Batch* b, Column* column, Py_ssize_t row, int number) noexcept nogil:
    if not begin_cell(b, column, row):
        return False
    (<int32_t*> column.cells)[row] = number
    return True


cdef inline bint put_long(Batch* b, Column* column, Py_ssize_t row, int64_t number) noexcept nogil:
    if not begin_cell(b, column, row):
        return False
    (<int64_t*> column.cells)[row] = number
    will_write_at(column.cells, 8 * row)
    return True


cdef bint put_number(Batch* b, Column* column, Py_ssize_t row, int64_t number) noexcept nogil:
    """Write a number into a column of whatever kind; there is no default of another."""
    if column.kind == _BOOL:
        return put_bool(b, column, row, number != 0)
    if column.kind == _INT64:
        return put_long(b, column, row, number)
    return put_short(b, column, row, <int> number)


cdef inline uint8_t hex_digit(int number) noexcept nogil:
    return <uint8_t> (48 + number if number < 10 else 87 + number)


cdef inline uint8_t* write_hex(uint8_t* out, octets p, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        out[2 * i] = hex_digit(p[i] >> 4)
        out[2 * i + 1] = hex_digit(p[i] & 15)
    return out + 2 * n


cdef void write_uuid(uint8_t* out, octets p) noexcept nogil:
    out = write_hex(out, p, 4)
    out[0] = 45
    out = write_hex(out + 1, p + 4, 2)
    out[0] = 45
    out = write_hex(out + 1, p + 6, 2)
    out[0] = 45
    out = write_hex(out + 1, p + 8, 2)
    out[0] = 45
    write_hex(out + 1, p + 10, 6)


cdef int digits_of(uint8_t* digits, uint64_t number) noexcept nogil:
    """Write the decimal digits to the end of twenty octets; tell where they begin."""
    cdef int i = 20
    while True:
        i -= 1
        digits[i] = <uint8_t> (48 + number % 10)
        number //= 10
        if number == 0:
            return i


cdef int write_character(uint8_t* out, uint32_t point) noexcept nogil:
    """Write a code point that is no surrogate as UTF-8; tell how many octets it took."""
    if point < 0x80:
        out[0] = <uint8_t> point
        return 1
    if point < 0x800:
        out[0] = <uint8_t> (0xC0 | point >> 6)
        out[1] = <uint8_t> (0x80 | point & 63)
        return 2
    if point < 0x10000:
        out[0] = <uint8_t> (0xE0 | point >> 12)
        out[1] = <uint8_t> (0x80 | point >> 6 & 63)
        out[2] = <uint8_t> (0x80 | point & 63)
        return 3
    out[0] = <uint8_t> (0xF0 | point >> 18)
    out[1] = <uint8_t> (0x80 | point >> 12 & 63)
    out[2] = <uint8_t> (0x80 | point >> 6 & 63)
    out[3] = <uint8_t> (0x80 | point & 63)
    return 4


# Values.


cdef bint grow_values(Values* values, Py_ssize_t least) noexcept nogil:
    """Make room for so many values, or twice as many as now."""
    cdef Py_ssize_t room = (max(2 * values.room, least, 64) + 63) // 64 * 64
    cdef Column* members = &values.types
    cdef int i
    if room > LARGEST:
        return False
    for i in range(6):
        # The type is the one that every value has.
        if (i == 0 or members[i].cells != NULL) and not widen_member(&members[i], room):
            return False
    if values.room == 0:
        (<int32_t*> values.types.cells)[0] = 0
    values.room = room
    return True


cdef inline bint room_for(Values* values, Py_ssize_t count) noexcept nogil:
    """Make room for more values and their types; what they hold makes its own."""
    if values.count + count > values.room and not grow_values(values, values.count + count):
        return False
    return has_room(&values.types, 16 * count)


cdef bint put_null(Values* values) noexcept nogil:
    if not room_for(values, 1):
        return False
    values.count += 1
    (<int32_t*> values.types.cells)[values.count] = <int32_t> values.types.size
    return True


cdef inline void will_write_values(Values* values) noexcept nogil:
    """Ask for where more values go: strings, numbers and their types, which most are."""
    will_write_at(values.types.cells, 4 * values.count)
    will_write_at(values.types.data, values.types.size)
    will_write_at(values.s.cells, 4 * values.count)
    will_write_at(values.s.data, values.s.size)
    will_write_at(values.l.cells, 8 * values.count)
    will_write_at(values.d.cells, 8 * values.count)


cdef void take_values(Values* values, Py_ssize_t count) noexcept nogil:
    """Take back the values behind so many, the last of which may be half written."""
    cdef Column* members = &values.types
    cdef int i
    if values.room == 0:
        return
    values.types.written = values.room + 1
    for i in range(6):
        take_members(&members[i], count, values.count + 1)
    values.count = count


cdef void free_values(Values* values) noexcept nogil:
    cdef Column* members = &values.types
    cdef int i
    for i in range(6):
        free_column(&members[i])


cdef inline bint put_l(Batch* b, Values* values, int64_t number) noexcept nogil:
    if values.l.cells == NULL and not widen_member(&values.l, values.room):
        return full(b)
    set_bit(values.l.bits, values.count)
    (<int64_t*> values.l.cells)[values.count] = number
    return True


cdef inline bint put_d(Batch* b, Values* values, uint64_t bits) noexcept nogil:
    if values.d.cells == NULL and not widen_member(&values.d, values.room):
        return full(b)
    set_bit(values.d.bits, values.count)
    (<uint64_t*> values.d.cells)[values.count] = bits
    return True


cdef inline bint put_u(Batch* b, Values* values, uint64_t number) noexcept nogil:
    cdef uint64_t* cells
    if values.u.cells == NULL and not widen_member(&values.u, values.room):
        return full(b)
    set_bit(values.u.bits, values.count)
    cells = <uint64_t*> values.u.cells + 2 * values.count
    cells[LOW_WORD] = number
    return True


cdef bint prepare_member(Batch* b, Column* column, Py_ssize_t slots, Py_ssize_t n) noexcept nogil:
    """Make a member ready for n octets: what `put_member` finds missing."""
    if (column.cells == NULL and not widen_member(column, slots)) or not has_room(column, n):
        return full(b)
    return True


cdef inline bint put_member(
    Batch* b, Values* values, Column* column, octets p, Py_ssize_t n, int rule
) noexcept nogil:
    """Write n octets as a member of a value; False where they are not what they must be."""
    cdef uint64_t high
    if n + 16 > column.room - column.size and not prepare_member(b, column, values.room, n):
        return False
    high = copied(column.data + column.size, p, n)
    if high and rule != ANY and (rule == ASCII or not is_utf8(p, n)):
        return False
    close_member(values, column, n)
    return True


cdef inline void close_member(Values* values, Column* column, Py_ssize_t n) noexcept nogil:
    """Let the n octets behind the last ones be the member of a value."""
    fill_offsets(column, values.count)
    column.size += n
    set_bit(column.bits, values.count)


cdef bint put_float(Batch* b, Values* values, octets p) noexcept nogil:
    cdef uint32_t single = u32(p)
    cdef float real
    cdef double wide
    cdef uint64_t bits
    if (single & 0x7F800000) == 0x7F800000 and single & 0x7FFFFF:
        # The way through a double loses which NaN it was: its octets stand beside it.
        if not put_member(b, values, &values.b, p, 4, ANY):
            return False
        return put_d(b, values, 0x7FF8000000000000)
    memcpy(&real, &single, 4)
    wide = real
    memcpy(&bits, &wide, 8)
    return put_d(b, values, bits)


# Typed JSON, as `amqp10msg.notation.to_typed` has it, behind what the cells of a column hold.


cdef inline bint put_octets(Batch* b, Column* out, octets p, Py_ssize_t n) noexcept nogil:
    if not has_room(out, n):
        return full(b)
    memcpy(out.data + out.size, p, n)
    out.size += n
    return True


cdef inline bint put_ascii(Batch* b, Column* out, const char* text, Py_ssize_t n) noexcept nogil:
    return put_octets(b, out, <octets> text, n)


cdef inline bint put_mark(Batch* b, Column* out, int mark) noexcept nogil:
    cdef uint8_t octet = <uint8_t> mark
    return put_octets(b, out, &octet, 1)


cdef bint put_hex(Batch* b, Column* out, octets p, Py_ssize_t n) noexcept nogil:
    """Write octets in hex, between quotes."""
    if n > LARGEST // 2 or not has_room(out, 2 * n + 2):
        return full(b)
    out.data[out.size] = QUOTE
    write_hex(out.data + out.size + 1, p, n)
    out.data[out.size + 2 * n + 1] = QUOTE
    out.size += 2 * n + 2
    return True


cdef bint put_digits(Batch* b, Column* out, bint negative, uint64_t number) noexcept nogil:
    cdef uint8_t[20] digits
    cdef int i = digits_of(digits, number)
    return (not negative or put_mark(b, out, MINUS)) and put_octets(b, out, digits + i, 20 - i)


cdef bint put_string(Batch* b, Column* out, octets p, Py_ssize_t n) noexcept nogil:
    """Write text between quotes, escaping what `json` does."""
    cdef octets stop = p + n
    cdef uint8_t* to
    cdef Py_ssize_t escaped = 0
    cdef Py_ssize_t i
    cdef int c
    cdef int short_form
    for i in range(n):
        escaped += (p[i] < 32) | (p[i] == QUOTE) | (p[i] == BACKSLASH)
    # Not added up where that would be more than a column holds.
    if escaped > LARGEST // 6 or n > LARGEST // 6 * 5 or not has_room(out, n + 5 * escaped + 2):
        return full(b)
    to = out.data + out.size
    to[0] = QUOTE
    to += 1
    while p < stop:
        c = p[0]
        p += 1
        if c >= 32 and c != QUOTE and c != BACKSLASH:
            to[0] = <uint8_t> c
            to += 1
            continue
        to[0] = BACKSLASH
        short_form = SHORT_FORMS[c]
        if short_form:
            to[1] = <uint8_t> short_form
            to += 2
        else:
            memcpy(to + 1, <const char*> b"u00", 3)
            to[4] = hex_digit(c >> 4)
            to[5] = hex_digit(c & 15)
            to += 6
    to[0] = QUOTE
    out.size = to + 1 - out.data
    return True


cdef octets write_items(
    Batch* b, Column* out, octets p, octets end, int code, int depth
) noexcept nogil:
    """Write a list's values, or a map's pairs, between brackets; `p` is behind the constructor."""
    cdef octets stop = p
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t i
    cdef Py_ssize_t j
    cdef octets keys[MAX_NESTED_PAIRS]
    cdef Py_ssize_t[MAX_NESTED_PAIRS] sizes
    cdef bint pairs = code == 0xC1 or code == 0xD1
    if depth < 0:
        return NULL
    if code == 0xC0 or code == 0xD0 or pairs:
        p = open_compound(b, p, end, code, &stop, &count)
        if p == NULL or (pairs and (count & 1 or count > 2 * MAX_NESTED_PAIRS)):
            return NULL
    elif code != 0x45:
        return NULL
    if not put_mark(b, out, BRACKET):
        return NULL
    for i in range(count):
        if i and not put_mark(b, out, COMMA):
            return NULL
        if pairs and not i & 1:
            if not put_mark(b, out, BRACKET):
                return NULL
            keys[i >> 1] = text_at(p, stop, &sizes[i >> 1])
            if keys[i >> 1] == NULL:
                return NULL
            for j in range(i >> 1):
                # A symbol and a string that look the same are for the other way, too.
                if sizes[j] == sizes[i >> 1] and memcmp(keys[j], keys[i >> 1], sizes[j]) == 0:
                    return NULL
        p = write_typed(b, out, p, stop, depth)
        if p == NULL or (pairs and i & 1 and not put_mark(b, out, BRACKET_END)):
            return NULL
    return p if p == stop and put_mark(b, out, BRACKET_END) else NULL


cdef octets write_array(
    Batch* b, Column* out, octets p, octets end, int code, int depth
) noexcept nogil:
    """Write an array's constructor and values; `p` is behind its own constructor."""
    cdef Py_ssize_t wide = 1 if code == 0xE0 else 4
    cdef Py_ssize_t size
    cdef Py_ssize_t count
    cdef Py_ssize_t i
    cdef octets stop
    cdef uint8_t element
    if depth < 0 or end - p < 2 * wide + 1:
        return NULL
    size = p[0] if wide == 1 else u32(p)
    p += wide
    if size < wide + 1 or size > end - p:
        return NULL
    stop = p + size
    count = p[0] if wide == 1 else u32(p)
    element = p[wide]
    p += wide + 1
    b.items -= count
    if b.items < 0 or CODES[element].width == 255:
        return NULL
    if not put_hex(b, out, &element, 1) or not put_ascii(b, out, b",[", 2):
        return NULL
    if CODES[element].width == 0:
        if not write_repeated(b, out, p, stop, element, count, depth):
            return NULL
        count = 0
    for i in range(count):
        if i and not put_mark(b, out, COMMA):
            return NULL
        p = write_value(b, out, p, stop, element, depth)
        if p == NULL:
            return NULL
    return p if p == stop and put_mark(b, out, BRACKET_END) else NULL


cdef bint write_repeated(
    Batch* b, Column* out, octets p, octets stop, int code, Py_ssize_t count, int depth
) noexcept nogil:
    """Write so many values without octets, which are all the same.

    Nothing in the input pays for them, so they have a budget of their own in the message, and their
    text another in the batch.
    """
    cdef Py_ssize_t begin = out.size
    cdef Py_ssize_t n
    cdef Py_ssize_t i
    b.zero_width -= count
    if b.zero_width < 0:
        return False
    if count == 0:
        return True
    if write_value(b, out, p, stop, code, depth) == NULL:
        return False
    n = out.size - begin
    # The count is one of four octets.
    b.zero_room -= (n + 1) * count
    if b.zero_room < 0:
        # One message alone is left to the other way.
        return b.rows > 1 and full(b)
    if not has_room(out, (n + 1) * count):
        return full(b)
    for i in range(1, count):
        out.data[out.size] = COMMA
        memcpy(out.data + out.size + 1, out.data + begin, n)
        out.size += n + 1
    return True


cdef octets text_at(octets p, octets stop, Py_ssize_t* n) noexcept nogil:
    """Find the octets of a string or a symbol; NULL where there is none."""
    cdef int code
    if stop - p < 2:
        return NULL
    code = p[0]
    p += 1
    if code == 0xA1 or code == 0xA3:
        n[0] = p[0]
        p += 1
    elif (code == 0xB1 or code == 0xB3) and stop - p >= 4:
        n[0] = u32(p)
        p += 4
    else:
        return NULL
    return p if n[0] <= stop - p else NULL


cdef octets write_typed(
    Batch* b, Column* out, octets p, octets stop, int depth
) noexcept nogil:
    """Write a value as typed JSON; NULL where it is described or wrong."""
    return write_value(b, out, p + 1, stop, p[0], depth) if p < stop else NULL


cdef octets write_value(
    Batch* b, Column* out, octets p, octets stop, int code, int depth
) noexcept nogil:
    """The same of a value whose constructor is read."""
    cdef int way = CODES[code].way
    if CODES[code].width == 255 or not put_ascii(b, out, b'["', 2):
        return NULL
    if not put_octets(b, out, CODES[code].name, CODES[code].name_size):
        return NULL
    if not put_mark(b, out, QUOTE):
        return NULL
    if way != NOTHING:
        if not put_mark(b, out, COMMA):
            return NULL
        if code == 0xE0 or code == 0xF0:
            p = write_array(b, out, p, stop, code, depth - 1)
        elif code == 0x45 or code >= 0xC0:
            p = write_items(b, out, p, stop, code, depth - 1)
        elif way == OCTETS:
            p = write_octets(b, out, p, stop, code)
        elif CODES[code].width <= stop - p and write_number(b, out, p, code):
            p += CODES[code].width
        else:
            return NULL
    return p if p != NULL and put_mark(b, out, BRACKET_END) else NULL


cdef bint write_number(Batch* b, Column* out, octets p, int code) noexcept nogil:
    """Write what a value of a fixed width holds."""
    cdef int64_t number
    if code == 0x41 or (code == 0x56 and p[0] == 1):
        return put_ascii(b, out, b"true", 4)
    if code == 0x42 or (code == 0x56 and p[0] == 0):
        return put_ascii(b, out, b"false", 5)
    if code == 0x56:
        return False
    if CODES[code].way == NUMBER:
        number = number_of(p, code)
        # The least of all has no other sign of its own width.
        return put_digits(
            b, out, number < 0, 0 - <uint64_t> number if number < 0 else <uint64_t> number
        )
    if CODES[code].way == WORD:
        return put_digits(b, out, False, word_of(p, code))
    if code == 0x73:
        return is_scalar(u32(p)) and put_digits(b, out, False, u32(p))
    # What is left: float, double, decimals, uuid.
    return put_hex(b, out, p, CODES[code].width)


cdef inline bint is_scalar(uint32_t point) noexcept nogil:
    """Tell whether this is a code point that is no surrogate."""
    return point < 0xD800 or 0xDFFF < point <= 0x10FFFF


cdef octets write_octets(Batch* b, Column* out, octets p, octets stop, int code) noexcept nogil:
    """Write a string, a symbol or a binary, behind its constructor."""
    cdef Py_ssize_t n
    p = open_octets(p, code, &n)
    if n > stop - p:
        return NULL
    if CODES[code].rule == ANY:
        return p + n if put_hex(b, out, p, n) else NULL
    if not is_text(p, n, CODES[code].rule) or not put_string(b, out, p, n):
        return NULL
    return p + n


cdef octets read_nested(
    Batch* b, Values* values, octets p, octets stop, int code
) noexcept nogil:
    """Read a list, a map or an array as the value of an entry."""
    cdef Column* out = &values.s
    if not prepare_member(b, out, values.room, 0):
        return NULL
    # What has been written where this ends in the middle, `take_values` takes back.
    fill_offsets(out, values.count)
    p = write_value(b, out, p, stop, code, b.depth)
    if p != NULL:
        set_bit(out.bits, values.count)
    return p


cdef octets read_json(
    Batch* b, int section, bint again, Py_ssize_t row, octets p, octets end
) noexcept nogil:
    """Read an amqp-value, or one more amqp-sequence, as a body of typed JSON."""
    cdef Column* out = b.body_json
    cdef int code
    if out == NULL:
        return NULL
    if again:
        # The list of sections goes on.
        out.size -= 1
        if not put_mark(b, out, COMMA):
            return NULL
    else:
        if not prepare(b, out, row, 0):
            return NULL
        (<int32_t*> out.cells)[row] = <int32_t> out.size
        out.written = row + 1
        if section == 7:
            return write_typed(b, out, p, end, b.max_depth)
        if not put_mark(b, out, BRACKET):
            return NULL
    code = p[0]
    if code != 0x45 and code != 0xC0 and code != 0xD0:
        return NULL
    p = write_items(b, out, p + 1, end, code, b.max_depth)
    return p if p != NULL and put_mark(b, out, BRACKET_END) else NULL


cdef bint put_decimal(Batch* b, Values* values, octets p, int width) noexcept nogil:
    """Write the number of a decimal as `str` of Python's Decimal has it; False for no number."""
    cdef uint32_t[4] limbs
    cdef uint8_t[48] digits
    cdef uint64_t rest
    cdef uint64_t word = u64(p) if width > 4 else <uint64_t> u32(p) << 32
    cdef int precision = 7 if width == 4 else 16 if width == 8 else 34
    cdef int bias = 101 if width == 4 else 398 if width == 8 else 6176
    # The bits of the first eight octets behind sign, exponent and, where it is, the large form.
    cdef int exponent_bits = 8 if width == 4 else 10 if width == 8 else 14
    cdef bint large = (word >> 61 & 3) == 3
    cdef int exponent
    cdef int i
    cdef int begin = 40
    cdef bint any_left = True
    if (word >> 59 & 15) == 15:
        return False
    exponent = <int> (word << (3 if large else 1) >> (64 - exponent_bits)) - bias
    if large:
        word = (word << (3 + exponent_bits) >> (3 + exponent_bits)) | (
            <uint64_t> 4 << (61 - exponent_bits)
        )
    else:
        word = word << (1 + exponent_bits) >> (1 + exponent_bits)
    if width == 4:
        word >>= 32
    limbs[0] = 0
    limbs[1] = 0
    limbs[2] = <uint32_t> (word >> 32)
    limbs[3] = <uint32_t> word
    if width == 16:
        limbs[0] = limbs[2]
        limbs[1] = limbs[3]
        limbs[2] = u32(p + 8)
        limbs[3] = u32(p + 12)
        # So large that no digits are left.
        any_left = not large
    while any_left:
        rest = 0
        any_left = False
        for i in range(4):
            rest = rest << 32 | limbs[i]
            limbs[i] = <uint32_t> (rest // 10)
            rest %= 10
            any_left = any_left or limbs[i] != 0
        begin -= 1
        digits[begin] = <uint8_t> (48 + rest)
    if 40 - begin > precision or begin == 40:
        begin = 39
        digits[39] = 48
    return (
        put_member(b, values, &values.b, p, width, ANY)
        and put_scientific(b, values, p[0] >> 7, digits + begin, 40 - begin, exponent)
    )


cdef bint put_scientific(
    Batch* b, Values* values, bint negative, octets digits, int n, int exponent
) noexcept nogil:
    """Write a number as a member `s`: digits times ten to an exponent."""
    cdef Column* out = &values.s
    cdef Py_ssize_t begin
    cdef uint8_t* to
    cdef uint8_t[20] power
    cdef int left = n + exponent
    cdef int point = left if exponent <= 0 and left > -6 else 1
    cdef int i
    # Sign, digits, six zeros, point, E, sign, four digits.
    if not prepare_member(b, out, values.room, 64):
        return False
    to = out.data + out.size
    if negative:
        to[0] = MINUS
        to += 1
    if point <= 0:
        memcpy(to, <const char*> b"0.", 2)
        memset(to + 2, ZERO, -point)
        memcpy(to + 2 - point, digits, n)
        to += 2 - point + n
    else:
        memcpy(to, digits, point)
        to += point
        if point < n:
            to[0] = POINT
            memcpy(to + 1, digits + point, n - point)
            to += 1 + n - point
    if left != point:
        to[0] = EXPONENT
        to[1] = MINUS if left < point else PLUS
        i = digits_of(power, point - left if left < point else left - point)
        memcpy(to + 2, power + i, 20 - i)
        to += 22 - i
    close_member(values, out, to - (out.data + out.size))
    return True


cdef octets read_other(Batch* b, Values* values, octets p, octets stop, int code) noexcept nogil:
    """Read a value with a way of its own, whose octets are there if its width is fixed."""
    if code == 0x45 or code >= 0xC0:
        return read_nested(b, values, p, stop, code)
    if code == 0x74 or code == 0x84 or code == 0x94:
        if not put_decimal(b, values, p, CODES[code].width):
            return NULL
    elif code == 0x56:
        if p[0] > 1 or not put_l(b, values, p[0]):
            return NULL
    elif code == 0x72:
        if not put_float(b, values, p):
            return NULL
    elif code == 0x73:
        if not is_scalar(u32(p)) or not prepare_member(b, &values.s, values.room, 4):
            return NULL
        close_member(values, &values.s, write_character(values.s.data + values.s.size, u32(p)))
    elif code == 0x98:
        if not prepare_member(b, &values.s, values.room, 36):
            return NULL
        write_uuid(values.s.data + values.s.size, p)
        close_member(values, &values.s, 36)
    else:
        return NULL
    return p + CODES[code].width


cdef inline octets read_value(
    Batch* b, Values* values, octets p, octets stop, int code
) noexcept nogil:
    """Read a value whose constructor is read, and write its member: where it ends, or NULL.

    `room_for` has made room. `put_types` follows, or `take_values` where this gives NULL.
    """
    cdef int way = CODES[code].way
    cdef Py_ssize_t n
    if way == OCTETS:
        p = open_octets(p, code, &n)
        if n > stop - p or not put_member(
            b, values, &values.s if CODES[code].rule != ANY else &values.b, p, n, CODES[code].rule
        ):
            return NULL
        return p + n
    n = CODES[code].width
    if n > stop - p:
        return NULL
    if way == NUMBER:
        if not put_l(b, values, number_of(p, code)):
            return NULL
    elif way == REAL:
        if not put_d(b, values, u64(p)):
            return NULL
    elif way == WORD:
        if not put_u(b, values, word_of(p, code)):
            return NULL
    elif way == OTHER:
        return read_other(b, values, p, stop, code)
    return p + n


cdef inline octets open_octets(octets p, int code, Py_ssize_t* n) noexcept nogil:
    """Read the size of a string, a symbol or a binary, which is still to be compared."""
    if code < 0xB0:
        n[0] = p[0]
        return p + 1
    n[0] = u32(p)
    return p + 4


cdef inline void put_types(
    Column* column, const uint8_t* codes, Py_ssize_t first, Py_ssize_t count
) noexcept nogil:
    """Note the types of values, for which there is room."""
    cdef uint8_t* data = column.data
    cdef int32_t size = <int32_t> column.size
    cdef int32_t* ends = <int32_t*> column.cells + first + 1
    cdef Code* code
    cdef Py_ssize_t i
    for i in range(count):
        code = &CODES[codes[i]]
        # All 16 octets, of which the name's are kept: quicker than as many as there are.
        memcpy(data + size, code.name, 16)
        size += code.name_size
        ends[i] = size
    column.size = size


cdef bint is_other(octets p, int code) noexcept nogil:
    """Judge a value with a way of its own: False where it is nested or wrong."""
    if code == 0x56:
        return p[0] <= 1
    if code == 0x73:
        return is_scalar(u32(p))
    return code == 0x72 or code == 0x74 or code == 0x84 or code == 0x94 or code == 0x98


cdef inline octets pass_value(Batch* b, octets p, octets stop, int code) noexcept nogil:
    """Judge a value that nobody asked for: where it ends, or NULL."""
    cdef Py_ssize_t n
    cdef int way = CODES[code].way
    if way == OCTETS:
        p = open_octets(p, code, &n)
        if n > stop - p:
            return NULL
        return p + n if is_text(p, n, CODES[code].rule) else NULL
    n = CODES[code].width
    if n > stop - p or (way == OTHER and not is_other(p, code)):
        return NULL
    return p + n


# Sections. A cursor goes in, and comes back where the section ends, or as NULL.


cdef inline octets open_compound(
    Batch* b, octets p, octets end, int code, octets* stop, Py_ssize_t* count
) noexcept nogil:
    """Read a compound's size and count: where its items begin, or NULL."""
    cdef Py_ssize_t size
    if code < 0xD0:
        size = p[0]
        if size < 1 or size > end - p - 1:
            return NULL
        stop[0] = p + 1 + size
        count[0] = p[1]
        p += 2
    else:
        size = u32(p)
        if size < 4 or size > end - p - 4:
            return NULL
        stop[0] = p + 4 + size
        count[0] = u32(p + 4)
        p += 8
    b.items -= count[0]
    if count[0] > stop[0] - p or b.items < 0:
        return NULL
    return p


cdef bint put_type(Batch* b, Column* column, Py_ssize_t row, int code) noexcept nogil:
    """Note the type of an identifier."""
    cdef uint8_t* out = begin_text(b, column, row, CODES[code].name_size)
    if out == NULL:
        return False
    memcpy(out, CODES[code].name, 16)
    return True


cdef octets read_identifier(
    Batch* b, Column* column, Py_ssize_t row, octets p, octets stop, int code
) noexcept nogil:
    """Read a message-id or correlation-id that is no text."""
    cdef Py_ssize_t n
    cdef int i
    cdef uint8_t[20] digits
    cdef uint8_t* out
    if code == 0xA0 or code == 0xB0:
        p = open_octets(p, code, &n)
        if n > stop - p:
            return NULL
        if column != NULL:
            out = begin_text(b, column, row, 2 * n)
            if out == NULL:
                return NULL
            write_hex(out, p, n)
        return p + n
    if code != 0x98 and code != 0x80 and code != 0x53 and code != 0x44:
        return NULL
    n = CODES[code].width
    if n > stop - p:
        return NULL
    if column == NULL:
        return p + n
    if code == 0x98:
        out = begin_text(b, column, row, 36)
        if out == NULL:
            return NULL
        write_uuid(out, p)
    else:
        i = digits_of(digits, 0 if n == 0 else p[0] if n == 1 else u64(p))
        out = begin_text(b, column, row, 20 - i)
        if out == NULL:
            return NULL
        memcpy(out, digits + i, 20 - i)
    return p + n


cdef inline octets read_number(
    Batch* b, Field* field, Py_ssize_t row, octets p, octets stop, int code
) noexcept nogil:
    """Read a field of fixed width. What is cut off is written, too, and taken back with its row."""
    cdef Column* column = field.column
    cdef int64_t number = 0
    cdef Py_ssize_t n = 0
    if field.way == BOOLEAN:
        if code == 0x56:
            number = p[0]
            n = 1
        elif code == 0x41:
            number = 1
        elif code != 0x42:
            return NULL
        if number > 1 or (column != NULL and not put_bool(b, column, row, number != 0)):
            return NULL
    elif field.way == UINT:
        if code == 0x70:
            number = u32(p)
            n = 4
        elif code == 0x52:
            number = p[0]
            n = 1
        elif code != 0x43:
            return NULL
        if column != NULL and not put_long(b, column, row, number):
            return NULL
    elif field.way == UBYTE:
        n = 1
        if code != 0x50 or (column != NULL and not put_short(b, column, row, p[0])):
            return NULL
    elif field.way == TIMESTAMP:
        number = <int64_t> u64(p)
        n = 8
        if code != 0x83:
            return NULL
        if FIRST <= number <= LAST:
            number *= 1000
        else:
            column = field.second
        if column != NULL and not put_long(b, column, row, number):
            return NULL
    else:
        return NULL
    return p + n if n <= stop - p else NULL


cdef inline octets read_text(
    Batch* b, Field* field, Py_ssize_t row, octets p, octets stop, int code
) noexcept nogil:
    """Read a field of text or binary, behind its constructor."""
    cdef Py_ssize_t n
    p = open_octets(p, code, &n)
    if n > stop - p:
        return NULL
    if field.column != NULL:
        if not put_text(b, field.column, row, p, n, field.rule):
            return NULL
    elif not is_text(p, n, field.rule):
        return NULL
    if field.second != NULL and not put_type(b, field.second, row, code):
        return NULL
    return p + n


cdef inline octets read_field(
    Batch* b, Field* field, Py_ssize_t row, octets p, octets stop, int code
) noexcept nogil:
    """Read a field behind its constructor."""
    if code == field.small or code == field.small + 0x10:
        return read_text(b, field, row, p, stop, code)
    if field.way != IDENTIFIER:
        return read_number(b, field, row, p, stop, code)
    p = read_identifier(b, field.column, row, p, stop, code)
    if p != NULL and field.second != NULL and not put_type(b, field.second, row, code):
        return NULL
    return p


cdef inline octets read_composite(
    Batch* b, int section, Py_ssize_t row, octets p, octets end
) noexcept nogil:
    cdef octets stop = end
    cdef Py_ssize_t count = 0
    cdef Field* field = &b.fields[b.first_field[section]]
    cdef Field* behind = field + b.field_count[section]
    cdef Field* last
    cdef int code = p[0]
    p += 1
    if code == 0xC0 or code == 0xD0:
        p = open_compound(b, p, end, code, &stop, &count)
        if p == NULL or count > b.field_count[section]:
            return NULL
    elif code == 0x45:
        stop = p
    else:
        return NULL
    last = field + count
    while field < last:
        if p >= stop:
            return NULL
        code = p[0]
        p += 1
        if code != 0x40:
            p = read_field(b, field, row, p, stop, code)
            if p == NULL:
                return NULL
        elif field.has_fallback and not put_number(b, field.column, row, field.fallback):
            return NULL
        field += 1
    if p != stop:
        return NULL
    # What is left out at the end of a list is null.
    while field < behind:
        if field.has_fallback and not put_number(b, field.column, row, field.fallback):
            return NULL
        field += 1
    return p


cdef inline uint64_t key_bit(octets p, Py_ssize_t n) noexcept nogil:
    """The bit of a key in a set of them: few others of a map have the same."""
    # The octet before the key is there, too.
    return <uint64_t> 1 << ((n + p[n - 1] + 8 * p[(n - 1) >> 1]) & 63)


cdef octets read_key(
    Batch* b, Map* map, int section, Py_ssize_t i, octets p, octets stop, uint64_t* seen
) noexcept nogil:
    """Read key i of a map, which no key before it may equal, and note it as known."""
    cdef Key* known = map.known
    cdef octets at = p
    cdef Py_ssize_t n
    cdef Py_ssize_t j
    cdef uint64_t bit
    cdef int small = 0xA1 if section == 4 else 0xA3
    if p >= stop or (p[0] != small and p[0] != small + 0x10):
        return NULL
    p = open_octets(p + 1, p[0], &n)
    # A value follows.
    if n >= stop - p or not is_text(p, n, UTF8 if small == 0xA1 else ASCII):
        return NULL
    if seen[0] == 0:
        for j in range(i):
            seen[0] |= key_bit(known[j].at + known[j].whole - known[j].n, known[j].n)
    bit = key_bit(p, n)
    if seen[0] & bit:
        for j in range(i):
            if known[j].n == n and is_same(known[j].at + known[j].whole - n, p, n):
                return NULL
    seen[0] |= bit
    known[i].at = at
    known[i].whole = p + n - at
    known[i].n = n
    known[i].pick = picked_for(b, section, p, n) if b.picked[section] else NULL
    return p + n


cdef inline octets pass_key(
    Batch* b, Map* map, int section, Py_ssize_t i, octets p, octets stop, uint64_t* seen
) noexcept nogil:
    """Read key i of a map: where its value begins, or NULL."""
    cdef Key* key = &map.known[i]
    if i < map.known_count and key.whole < stop - p and is_same(p, key.at, key.whole):
        return p + key.whole
    # From here on none is known, until all of this map are.
    map.known_count = 0
    return read_key(b, map, section, i, p, stop, seen)


cdef inline void put_keys(Map* map, Py_ssize_t first, Py_ssize_t count) noexcept nogil:
    """Write the keys of a map that has been read, for which there is room."""
    cdef Column* column = &map.keys
    cdef Key* key = map.known
    cdef int32_t* ends = <int32_t*> column.cells + first + 1
    cdef int32_t begin = <int32_t> column.size
    cdef int32_t moved
    cdef Py_ssize_t i
    if count <= map.known_count:
        # They stand among the keys already, in one piece: those of the map that was read last.
        moved = begin - (<int32_t*> column.cells)[map.known_first]
        for i in range(count):
            ends[i] = ends[i + map.known_first - first] + moved
        column.size = ends[count - 1] if count else begin
        copied(column.data + begin, column.data + begin - moved, column.size - begin)
        return
    for i in range(count):
        copied(column.data + column.size, key.at + key.whole - key.n, key.n)
        column.size += key.n
        ends[i] = <int32_t> column.size
        key += 1
    map.known_first = first
    map.known_count = count


cdef bint begin_map(
    Batch* b, Map* map, Py_ssize_t row, Py_ssize_t pairs, Py_ssize_t size
) noexcept nogil:
    """Make room for the entries of a map of so many octets."""
    if not begin_list(b, &map.rows, row):
        return False
    if (
        (map.values.room == 0 and not grow_values(&map.values, (pairs + 1) * min(b.rows, SEEN)))
        or not room_for(&map.values, pairs + 1)
        or (map.keys.slots < map.values.room and not widen_member(&map.keys, map.values.room))
        or not has_room(&map.keys, size)
    ):
        return full(b)
    (<int32_t*> map.keys.cells)[map.values.count] = <int32_t> map.keys.size
    return True


cdef Values* picked_for(Batch* b, int section, octets key, Py_ssize_t n) noexcept nogil:
    """Find where the value of a key goes that was asked for alone; NULL where it was not."""
    cdef Pick* pick = b.picks
    cdef Pick* behind = b.picks + b.pick_count
    while pick < behind:
        if pick.section == section and pick.n == n and memcmp(pick.key, key, n) == 0:
            return &pick.values
        pick += 1
    return NULL


cdef inline octets open_map(
    Batch* b, int section, octets p, octets end, octets* stop, Py_ssize_t* pairs
) noexcept nogil:
    """Read a map's constructor, size and count: where its pairs begin, or NULL."""
    cdef int code = p[0]
    if code != 0xC1 and code != 0xD1:
        return NULL
    p = open_compound(b, p + 1, end, code, stop, pairs)
    if pairs[0] & 1 or pairs[0] > 2 * MAX_PAIRS:
        return NULL
    pairs[0] >>= 1
    # Application properties hold simple values only.
    b.depth = 0 if section == 4 else b.max_depth
    return p


cdef bint begin_pick(Batch* b, Values* values) noexcept nogil:
    """Make room for the value of an entry that is asked for alone."""
    if not room_for(values, 1):
        return full(b)
    set_bit(values.types.bits, values.count)
    return True


cdef octets read_map(
    Batch* b, Map* map, bint whole, int section, Py_ssize_t row, octets p, octets end
) noexcept nogil:
    """Read a map section into its columns, or else those entries that are asked for alone."""
    cdef octets stop = end
    cdef Py_ssize_t pairs = 0
    cdef Py_ssize_t i
    cdef uint64_t seen = 0
    cdef Values* values = &map.values
    cdef Py_ssize_t first = values.count
    cdef Py_ssize_t size
    cdef uint8_t[MAX_PAIRS] codes
    p = open_map(b, section, p, end, &stop, &pairs)
    if p == NULL or (whole and not begin_map(b, map, row, pairs, stop - p)):
        return NULL
    for i in range(pairs):
        p = pass_key(b, map, section, i, p, stop, &seen)
        if p == NULL:
            return NULL
        codes[i] = p[0]
        if not whole:
            values = map.known[i].pick
            if values == NULL:
                p = pass_value(b, p + 1, stop, codes[i])
                if p == NULL:
                    return NULL
                continue
            if not begin_pick(b, values):
                return NULL
        p = read_value(b, values, p + 1, stop, codes[i])
        if p == NULL:
            return NULL
        if not whole:
            put_types(&values.types, codes + i, values.count, 1)
        values.count += 1
    if p != stop:
        return NULL
    if whole:
        size = map.keys.size
        put_keys(map, first, pairs)
        put_types(&values.types, codes, first, pairs)
        map.rows.size = values.count
        will_write_values(values)
        will_write_lines(map.keys.data, map.keys.size, map.keys.size - size)
        will_write_at(map.keys.cells, 4 * values.count)
    elif map.known_count == 0:
        map.known_count = pairs
    return p


cdef inline octets read_data(
    Batch* b, Py_ssize_t row, bint again, octets p, octets end
) noexcept nogil:
    cdef Py_ssize_t n
    cdef uint8_t* out
    cdef int code = p[0]
    p += 1
    if code != 0xA0 and code != 0xB0:
        return NULL
    p = open_octets(p, code, &n)
    if n > end - p:
        return NULL
    if b.body == NULL:
        return p + n
    if again:
        # The cell is begun; it gets longer.
        if not has_room(b.body, n):
            full(b)
            return NULL
        memcpy(b.body.data + b.body.size, p, n)
        b.body.size += n
        return p + n
    out = begin_text(b, b.body, row, n)
    if out == NULL:
        return NULL
    memcpy(out, p, n)
    will_write_lines(out, n, n)
    return p + n


cdef inline octets pass_over(octets p, octets end) noexcept nogil:
    """Pass over one value that is not described, by its size. Octets are there."""
    cdef int code = p[0]
    cdef Py_ssize_t n = CODES[code].width
    p += 1
    if n == 255:
        return NULL
    if code >= 0xA0:
        if n == 1:
            n = p[0]
            p += 1
        else:
            n = u32(p)
            p += 4
    if n > end - p:
        return NULL
    return p + n


cdef bint grow_parts(Batch* b) noexcept nogil:
    cdef Py_ssize_t old = b.part_room
    cdef Py_ssize_t room = max(2 * old, 256)
    if room > LARGEST:
        return full(b)
    # What is moved already is larger than `part_room` says, where the next fails.
    if (
        resize(<void**> &b.part_codes, 2 * old, 2 * room, False)
        and resize(<void**> &b.part_starts, 8 * old, 8 * room, False)
        and resize(<void**> &b.part_contents, 8 * old, 8 * room, False)
        and resize(<void**> &b.part_ends, 8 * old, 8 * room, False)
    ):
        b.part_room = room
        return True
    return full(b)


cdef inline bint put_part(
    Batch* b, int section, Py_ssize_t start, Py_ssize_t content, Py_ssize_t end
) noexcept nogil:
    cdef Py_ssize_t i = b.parts.size
    if i >= b.part_room and not grow_parts(b):
        return False
    b.part_codes[i] = <int16_t> (section + 0x70)
    b.part_starts[i] = start
    b.part_contents[i] = content
    b.part_ends[i] = end
    b.parts.size = i + 1
    will_write_at(b.part_starts, 8 * i)
    will_write_at(b.part_contents, 8 * i)
    will_write_at(b.part_ends, 8 * i)
    return True


cdef inline bint put_body_kind(Batch* b, int kind, Py_ssize_t row) noexcept nogil:
    cdef uint8_t* out = begin_text(b, b.body_kind, row, b.kind_sizes[kind])
    if out == NULL:
        return False
    memcpy(out, &b.kind_names[32 * kind], 16)
    return True


cdef octets read_map_section(
    Batch* b, int section, Py_ssize_t row, octets p, octets end
) noexcept nogil:
    """Read a map section: the whole of it, the entries that are picked, or both."""
    cdef Map* map = b.maps[section]
    cdef int64_t items = b.items
    cdef int64_t zero_width = b.zero_width
    cdef octets behind
    if map.wanted:
        behind = read_map(b, map, True, section, row, p, end)
        if behind == NULL or not b.picked[section]:
            return behind
        # What is read twice counts once.
        b.items = items
        b.zero_width = zero_width
    return read_map(b, map, False, section, row, p, end)


cdef octets read_body(
    Batch* b, int section, int number, Py_ssize_t row, octets p, octets end
) noexcept nogil:
    """Read a body section of which there are so many with this one."""
    if number == 1 and b.body_kind != NULL and not put_body_kind(b, section - 5, row):
        return NULL
    if b.body_sections != NULL:
        # Once more for each.
        b.body_sections.written = min(b.body_sections.written, row)
        if not put_int(b, b.body_sections, row, number):
            return NULL
    if not b.needs[section]:
        return pass_over(p, end)
    if section == 5:
        return read_data(b, row, number > 1, p, end)
    return read_json(b, section, number > 1, row, p, end)


cdef int long_descriptor(octets p, octets end) noexcept nogil:
    """Read a descriptor of eight octets; the section, or none. Symbols are for the other way."""
    return <int> p[9] - 0x70 if p[1] == 0x80 and end - p > 10 and u64(p + 2) <= 0x78 else -1


cdef bint read_message(Batch* b, Py_ssize_t row, octets begin, octets end) noexcept nogil:
    """Read one message into a row; False where it is an odd one, or where a column is full."""
    cdef octets p = begin
    cdef octets start
    cdef octets content
    cdef int section
    cdef int bodies = 0
    cdef int last = -1
    cdef bint with_parts = b.with_parts
    b.items = b.max_items
    b.zero_width = b.max_zero_width
    if with_parts and not begin_list(b, &b.parts, row):
        return False
    while p < end:
        start = p
        if end - p < 4 or p[0] != 0:
            return False
        if p[1] == 0x53:
            section = <int> p[2] - 0x70
            p += 3
        else:
            section = long_descriptor(p, end)
            p += 10
        if <uint32_t> section > 8:
            return False
        if (section <= last or last >= 5) and not FOLLOWERS[last + 1] >> section & 1:
            return False
        last = section
        content = p
        if b.ways[section] == COMPOSITE:
            p = read_composite(b, section, row, p, end)
        elif b.ways[section] == MAPPING:
            p = read_map_section(b, section, row, p, end)
        elif b.ways[section] == BODY:
            bodies += 1
            p = read_body(b, section, bodies, row, p, end)
        else:
            p = pass_over(p, end)
        if p == NULL:
            return False
        if with_parts and not put_part(b, section, start - begin, content - begin, p - begin):
            return False
    return True


cdef void take_row(Batch* b, Py_ssize_t row) noexcept nogil:
    """Take back what a message wrote that turned out to be an odd one."""
    cdef Map* map
    cdef int i
    for i in range(b.column_count):
        take_back(&b.columns[i], row)
    for i in range(4):
        map = &b.map_sections[i]
        if map.rows.written > row:
            take_back(&map.rows, row)
            take_values(&map.values, map.rows.size)
            map.keys.size = (<int32_t*> map.keys.cells)[map.rows.size]
            if map.known_first >= map.rows.size:
                map.known_count = 0
    for i in range(b.pick_count):
        take_values(&b.picks[i].values, row)
    take_back(&b.parts, row)


# Reading an array.


cdef void foresee_column(
    Column* column, Py_ssize_t done, Py_ssize_t rows, Py_ssize_t most
) noexcept nogil:
    cdef Py_ssize_t wanted
    if column.kind == _TEXT and column.cells != NULL:
        wanted = min(<Py_ssize_t> (1.05 * <double> column.size / done * rows), most)
        if wanted > column.size:
            make_room(column, wanted - column.size)


cdef void foresee_values(
    Values* values, Py_ssize_t done, Py_ssize_t rows, Py_ssize_t most
) noexcept nogil:
    cdef Column* members = &values.types
    cdef Py_ssize_t wanted
    cdef int i
    if values.room == 0:
        return
    # An entry takes three octets at least; a null of a pick none, but there is one a row.
    wanted = min(<Py_ssize_t> (1.05 * <double> values.count / done * rows), most // 3 + rows)
    if wanted > values.room:
        grow_values(values, wanted)
    foresee_column(&members[0], done, rows, 9 * (most // 3))
    for i in range(1, 6):
        foresee_column(&members[i], done, rows, most)


cdef void foresee(Batch* b, Py_ssize_t done, Py_ssize_t most) noexcept nogil:
    """Make room as if the other rows were like those that are done; growing copies.

    No column gets more than what the octets of the messages could ask for. Where there is no memory
    for that, growing will tell.
    """
    cdef int i
    for i in range(b.column_count):
        foresee_column(&b.columns[i], done, b.rows, most)
    for i in range(4):
        foresee_column(&b.map_sections[i].keys, done, b.rows, most)
        foresee_values(&b.map_sections[i].values, done, b.rows, most)
    for i in range(b.pick_count):
        foresee_values(&b.picks[i].values, done, b.rows, most)


cdef bint put_odd(Batch* b, int64_t row) noexcept nogil:
    if not has_room(&b.odd, 8):
        return full(b)
    memcpy(b.odd.data + b.odd.size, &row, 8)
    b.odd.size += 8
    return True


cdef bint null_picks(Batch* b, Py_ssize_t row) noexcept nogil:
    cdef int i
    for i in range(b.pick_count):
        if b.picks[i].values.count == row and not put_null(&b.picks[i].values):
            return full(b)
    return True


cdef octets copy_of(Batch* b, octets message, Py_ssize_t n) noexcept nogil:
    """Copy a message to where SPARE octets behind it can be read; NULL where there is no memory."""
    cdef int i
    # What is known of keys lies where the message before was.
    for i in range(4):
        b.map_sections[i].known_count = 0
    if n + SPARE > b.copy_room:
        if not resize(<void**> &b.copy, 0, n + SPARE, False):
            return NULL
        b.copy_room = n + SPARE
    if n:
        memcpy(b.copy, message, n)
    memset(b.copy + n, 0, SPARE)
    return b.copy


cdef enum:
    DONE
    FULL
    INVALID


cdef int read_array(
    Batch* b, octets data, Py_ssize_t data_size, octets offsets, int width, octets valid,
    Py_ssize_t first,
) noexcept nogil:
    """Read all rows."""
    cdef octets begin
    cdef Py_ssize_t row
    cdef Py_ssize_t place
    cdef int64_t start
    cdef int64_t end
    cdef int32_t short_start
    cdef int32_t short_end
    for row in range(b.rows):
        place = first + row
        if valid == NULL or valid[place >> 3] >> (place & 7) & 1:
            if width == 4:
                memcpy(&short_start, offsets + 4 * place, 4)
                memcpy(&short_end, offsets + 4 * place + 4, 4)
                start = short_start
                end = short_end
            else:
                memcpy(&start, offsets + 8 * place, 8)
                memcpy(&end, offsets + 8 * place + 8, 8)
            if not 0 <= start <= end <= data_size:
                return INVALID
            begin = data + start
            will_read_lines(data + end, end - start)
            if data_size - end < SPARE and end - start <= b.max_size:
                begin = copy_of(b, begin, end - start)
                if begin == NULL:
                    return FULL
            if end - start > b.max_size or not read_message(b, row, begin, begin + (end - start)):
                if b.full:
                    return FULL
                take_row(b, row)
                if not put_odd(b, row):
                    return FULL
        if b.pick_count and not null_picks(b, row):
            return FULL
        if row == SEEN - 1 and b.rows >= 2 * SEEN:
            foresee(b, SEEN, data_size)
    return DONE


# To Arrow, by way of its C data interface.

cdef enum:
    ZERO_COUNT = 1 << 24

# What columns without any value are made of, however many. Nobody writes to it, so that it takes
# addresses and no memory.
cdef uint8_t[ZERO_COUNT] ZEROS

cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void** buffers
    ArrowArray** children
    ArrowArray* dictionary
    void (*release)(ArrowArray*) noexcept nogil
    void* private_data

# What an exported batch holds on to: all is in one piece of memory.
cdef struct Export:
    ArrowArray* arrays
    ArrowArray** children
    const void** buffers
    void** blocks
    int array_count
    int child_count
    int buffer_count
    int block_count


cdef Export* new_export(int arrays) except NULL:
    """Make room for so many arrays."""
    cdef Py_ssize_t each = sizeof(ArrowArray) + sizeof(ArrowArray*) + 6 * sizeof(void*)
    cdef Export* export = <Export*> grab_zeros(sizeof(Export) + arrays * each)
    if export == NULL:
        raise MemoryError
    export.arrays = <ArrowArray*> (export + 1)
    export.children = <ArrowArray**> (export.arrays + arrays)
    export.buffers = <const void**> (export.children + arrays)
    export.blocks = <void**> (export.buffers + 3 * arrays)
    return export


cdef void release_nothing(ArrowArray* array) noexcept nogil:
    """Release a child, whose memory is its parent's."""
    array.release = NULL


cdef void release_array(ArrowArray* array) noexcept nogil:
    cdef Export* export = <Export*> array.private_data
    cdef int i
    for i in range(export.block_count):
        release(export.blocks[i])
    release(export)
    array.release = NULL


cdef void own(Export* export, void* data) noexcept nogil:
    """Let the array release this memory, if there is any."""
    export.blocks[export.block_count] = data
    export.block_count += 1


cdef ArrowArray* add_array(
    Export* export, Py_ssize_t length, Py_ssize_t nulls, int buffers, int children
) noexcept nogil:
    """Begin an array, with room for its buffers (NULL so far) and children."""
    cdef ArrowArray* array = &export.arrays[export.array_count]
    export.array_count += 1
    array.length = length
    array.null_count = nulls
    array.n_buffers = buffers
    array.buffers = &export.buffers[export.buffer_count]
    export.buffer_count += buffers
    array.n_children = children
    array.children = &export.children[export.child_count]
    export.child_count += children
    array.release = release_nothing
    return array


cdef ArrowArray* add_nulls(Export* export, int kind, Py_ssize_t count) except NULL:
    """Add an array without any value."""
    cdef Py_ssize_t size = max(cells_of(kind, count), bits_of(count))
    cdef void* zeros = ZEROS
    cdef ArrowArray* array
    if size > ZERO_COUNT:
        zeros = grab_zeros(size)
        if zeros == NULL:
            raise MemoryError
        own(export, zeros)
    array = add_array(export, count, count, 3 if kind == _TEXT else 2, 1 if kind == _LIST else 0)
    array.buffers[0] = array.buffers[1] = array.buffers[2 if kind == _TEXT else 1] = zeros
    return array


cdef ArrowArray* add_cells(
    Export* export, Column* column, Py_ssize_t count, Py_ssize_t nulls
) noexcept nogil:
    """Add an array, and give it the memory of the column."""
    cdef int buffers = 3 if column.kind == _TEXT else 2
    cdef ArrowArray* array = add_array(export, count, nulls, buffers, column.kind == _LIST)
    array.buffers[0] = column.bits if nulls else NULL
    array.buffers[1] = column.cells
    if buffers == 3:
        array.buffers[2] = column.data
    own(export, column.bits)
    own(export, column.cells)
    own(export, column.data)
    column.bits = NULL
    column.cells = NULL
    column.data = NULL
    return array


cdef ArrowArray* add_column(Export* export, Column* column, Py_ssize_t rows) except NULL:
    """Add a column of rows."""
    cdef Py_ssize_t nulls = 0
    cdef Py_ssize_t i
    if column.cells == NULL:
        return add_nulls(export, column.kind, rows)
    if column.written < rows and not leave_out(column, rows):
        raise MemoryError
    if column.bits != NULL:
        nulls = count_bits(column.bits, rows)
        for i in range(bits_of(rows)):
            column.bits[i] = ~column.bits[i]
    if column.kind == _TEXT or column.kind == _LIST:
        (<int32_t*> column.cells)[rows] = <int32_t> column.size
    return add_cells(export, column, rows, nulls)


cdef ArrowArray* add_member(Export* export, Column* column, Py_ssize_t count) except NULL:
    """Add a member of the structs of values."""
    if column.cells == NULL:
        return add_nulls(export, column.kind, count)
    if column.kind == _TEXT:
        fill_offsets(column, count)
    return add_cells(export, column, count, count - count_bits(column.bits, count))


cdef ArrowArray* add_values(
    Export* export, Values* values, Py_ssize_t count, bint nullable
) except NULL:
    """Add the structs of values, in the order of the members of `_schema.VALUE`."""
    cdef ArrowArray* array = add_array(export, count, 0, 1, 7)
    cdef ArrowArray* types
    if values.room == 0:
        types = add_nulls(export, _TEXT, count)
    else:
        if nullable:
            array.null_count = count - count_bits(values.types.bits, count)
        types = add_cells(export, &values.types, count, array.null_count)
    array.buffers[0] = types.buffers[0]
    array.children[0] = types
    array.children[1] = add_nulls(export, _TEXT, count)
    array.children[2] = add_member(export, &values.s, count)
    array.children[3] = add_member(export, &values.l, count)
    array.children[4] = add_member(export, &values.d, count)
    array.children[5] = add_member(export, &values.b, count)
    array.children[6] = add_member(export, &values.u, count)
    return array


cdef ArrowArray* add_map(Export* export, Map* map, Py_ssize_t rows) except NULL:
    cdef Py_ssize_t count = map.values.count
    cdef ArrowArray* array = add_column(export, &map.rows, rows)
    cdef ArrowArray* entries = add_array(export, count, 0, 1, 2)
    array.children[0] = entries
    if map.keys.cells == NULL:
        entries.children[0] = add_nulls(export, _TEXT, 0)
    else:
        entries.children[0] = add_cells(export, &map.keys, count, 0)
    entries.children[1] = add_values(export, &map.values, count, False)
    return array


cdef ArrowArray* add_parts(Export* export, Batch* b) except NULL:
    cdef Py_ssize_t count = b.parts.size
    cdef ArrowArray* array = add_column(export, &b.parts, b.rows)
    cdef ArrowArray* part = add_array(export, count, 0, 1, 4)
    cdef void** members = [b.part_codes, b.part_starts, b.part_contents, b.part_ends]
    cdef int i
    array.children[0] = part
    if b.part_room == 0:
        for i in range(4):
            part.children[i] = add_nulls(export, _INT64, 0)
        return array
    b.part_codes = NULL
    b.part_starts = NULL
    b.part_contents = NULL
    b.part_ends = NULL
    for i in range(4):
        part.children[i] = add_array(export, count, 0, 2, 0)
        part.children[i].buffers[1] = members[i]
        own(export, members[i])
    return array


cdef void free_batch(Batch* b) noexcept:
    cdef int i
    if b.columns != NULL:
        for i in range(b.column_count):
            free_column(&b.columns[i])
        release(b.columns)
    if b.picks != NULL:
        for i in range(b.pick_count):
            free_values(&b.picks[i].values)
        release(b.picks)
    for i in range(4):
        free_column(&b.map_sections[i].rows)
        free_column(&b.map_sections[i].keys)
        free_values(&b.map_sections[i].values)
    free_column(&b.parts)
    release(b.part_codes)
    release(b.part_starts)
    release(b.part_contents)
    release(b.part_ends)
    free_column(&b.odd)
    release(b.copy)
    release(b)


cdef void set_kinds(Values* values) noexcept nogil:
    values.types.kind = _TEXT
    values.s.kind = _TEXT
    values.l.kind = _INT64
    values.d.kind = _INT64
    values.b.kind = _TEXT
    values.u.kind = _WIDE


# Where a column of the result comes from.
COLUMN, MAP, PICK, PARTS = range(4)
cdef enum:
    _COLUMN
    _MAP
    _PICK
# The arrays of each: of a map itself, its entries, keys and values, and seven members.
ARRAYS = (1, 11, 8, 6)


cdef class Layout:
    """What a projection asks of the kernel; reads as many arrays as there are.

    Args:
        needs: for each of the nine kinds of section whether its content is read.
        composites: for each composite section its index and the rows of its fields: kind, column,
            second column, default or None.
        maps: for each map section its index and whether the map is a column.
        picks: the index of the map section and the octets of the key, for each.
        body: the columns of body_kind, body_sections, body, body_json; -1 where not asked for.
        kinds: the kinds of the columns.
        kind_names: the names of the three body kinds.
        results: for each column of the result its source (COLUMN, MAP, PICK or PARTS) and its
            number there.
        importer: makes a batch of the address of an ArrowArray.
    """

    cdef Batch plan
    cdef list kinds
    cdef list picks
    cdef list results
    cdef object importer
    cdef int[4] body
    cdef int[9] map_of

    def __cinit__(self, needs, composites, maps, picks, body, kinds, kind_names, results, importer):
        cdef int filled = 0
        cdef int section
        cdef int i
        cdef Field* field
        for section in range(9):
            self.plan.needs[section] = needs[section]
            self.map_of[section] = -1
        for section, rows in composites:
            if filled + len(rows) > MAX_FIELDS:
                raise ValueError("the composites have too many fields for this kernel")
            self.plan.first_field[section] = filled
            self.plan.field_count[section] = len(rows)
            for kind, column, second, fallback in rows:
                field = &self.plan.fields[filled]
                field.way, field.small, field.rule = FIELD_WAYS[kind]
                field.column_index = column
                field.second_index = second
                field.has_fallback = fallback is not None and column >= 0
                field.fallback = fallback or 0
                filled += 1
        if len(maps) > 4:
            raise ValueError("there are too many map sections for this kernel")
        for i, (section, wanted) in enumerate(maps):
            self.map_of[section] = i
            self.plan.map_sections[i].wanted = wanted
        for i in range(4):
            self.body[i] = body[i]
        for section in range(9):
            if 5 <= section <= 7:
                self.plan.ways[section] = BODY if max(body) >= 0 else SKIPPED
            elif not needs[section]:
                self.plan.ways[section] = SKIPPED
            else:
                self.plan.ways[section] = MAPPING if self.map_of[section] >= 0 else COMPOSITE
        for i, name in enumerate(kind_names):
            if len(name) > 16:
                raise ValueError("the name of a kind is too long for this kernel")
            self.plan.kind_sizes[i] = len(name)
            for j, octet in enumerate(name):
                self.plan.kind_names[32 * i + j] = octet
        self.kinds = list(kinds)
        self.picks = list(picks)
        self.results = list(results)
        self.importer = importer
        self.plan.with_parts = any(source == PARTS for source, _ in results)

    def read(
        self,
        data: int,
        data_size: int,
        offsets: int,
        offsets_size: int,
        width: int,
        valid: int,
        valid_size: int,
        first: int,
        rows: int,
        max_items: int,
        max_zero_width: int,
        max_size: int,
        max_depth: int,
        zero_room: int,
    ):
        """Read the messages of an array of binary (width 4) or large_binary (8).

        Takes the addresses and sizes of its buffers, which the caller keeps, and what one message
        may cost: values in compounds, those without octets in arrays, octets, and compounds in each
        other. Then the octets that all values without octets may be written out to. Gives the
        batch, and the numbers of the odd rows.

        Raises:
            OverflowError: a column would exceed Arrow's 32-bit offsets, or that last bound.
            ValueError: the buffers are not those of a valid array.
        """
        cdef Batch* b
        cdef octets data_at = <octets> <uintptr_t> data
        cdef octets offsets_at = <octets> <uintptr_t> offsets
        cdef octets valid_at = <octets> <uintptr_t> valid
        cdef Py_ssize_t octet_count = data_size
        cdef Py_ssize_t first_row = first
        cdef int offset_width = width
        cdef int status
        if first < 0 or rows < 0 or width not in (4, 8):
            raise ValueError("this is no valid array")
        if rows and (
            (first + rows + 1) * width > offsets_size or (valid and first + rows > valid_size * 8)
        ):
            raise ValueError("the array is shorter than it says")
        b = self.begin(rows, max_items, max_size)
        b.max_zero_width = max_zero_width
        b.zero_room = zero_room
        # A section itself is nested, too.
        b.max_depth = min(max_depth - 3, MAX_NESTED)
        try:
            with nogil:
                status = read_array(
                    b, data_at, octet_count, offsets_at, offset_width, valid_at, first_row
                )
            if status == FULL:
                raise OverflowError("a column is full")
            if status == INVALID:
                raise ValueError("the offsets of the array point outside of its octets")
            odd = [(<int64_t*> b.odd.data)[i] for i in range(b.odd.size // 8)]
            return exported(b, self.results, self.importer), odd
        finally:
            free_batch(b)

    cdef Batch* begin(self, Py_ssize_t rows, int64_t max_items, Py_ssize_t max_size) except NULL:
        """Make an empty batch."""
        cdef Batch* b = <Batch*> grab(sizeof(Batch))
        cdef Field* field
        cdef int i
        if b == NULL:
            raise MemoryError
        memcpy(b, &self.plan, sizeof(Batch))
        b.rows = rows
        b.max_items = max_items
        b.max_size = max_size
        b.column_count = len(self.kinds)
        b.pick_count = len(self.picks)
        b.columns = <Column*> grab_zeros((b.column_count + 1) * sizeof(Column))
        b.picks = <Pick*> grab_zeros((b.pick_count + 1) * sizeof(Pick))
        if b.columns == NULL or b.picks == NULL:
            free_batch(b)
            raise MemoryError
        for i in range(b.column_count):
            b.columns[i].kind = self.kinds[i]
            b.columns[i].written = -1
        for i in range(MAX_FIELDS):
            field = &b.fields[i]
            field.column = column_at(b, field.column_index)
            field.second = column_at(b, field.second_index)
        b.body_kind = column_at(b, self.body[0])
        b.body_sections = column_at(b, self.body[1])
        b.body = column_at(b, self.body[2])
        b.body_json = column_at(b, self.body[3])
        b.parts.kind = _LIST
        b.parts.written = -1
        for i in range(4):
            b.map_sections[i].rows.kind = _LIST
            b.map_sections[i].rows.written = -1
            b.map_sections[i].keys.kind = _TEXT
            set_kinds(&b.map_sections[i].values)
        for i in range(9):
            b.maps[i] = &b.map_sections[self.map_of[i]] if self.map_of[i] >= 0 else NULL
        for i, (section, key) in enumerate(self.picks):
            b.picks[i].section = section
            # The layout keeps the key.
            b.picks[i].key = <octets> <char*> <bytes> key
            b.picks[i].n = len(key)
            set_kinds(&b.picks[i].values)
            b.picked[<int> section] = True
        return b


cdef Column* column_at(Batch* b, int index) noexcept:
    return &b.columns[index] if 0 <= index < b.column_count else NULL


cdef exported(Batch* b, list results, importer):
    """Give the columns of the result to Arrow, as the children of one struct."""
    cdef Export* export = new_export(1 + sum([ARRAYS[source] for source, _ in results]))
    cdef ArrowArray batch
    cdef int i = 0
    cdef int source
    cdef int number
    batch.release = release_array
    batch.private_data = export
    try:
        memcpy(&batch, add_array(export, b.rows, 0, 1, len(results)), sizeof(ArrowArray))
        batch.release = release_array
        batch.private_data = export
        for source, number in results:
            if source == _COLUMN:
                batch.children[i] = add_column(export, &b.columns[number], b.rows)
            elif source == _MAP:
                batch.children[i] = add_map(export, &b.map_sections[number], b.rows)
            elif source == _PICK:
                batch.children[i] = add_values(export, &b.picks[number].values, b.rows, True)
            else:
                batch.children[i] = add_parts(export, b)
            i += 1
        return importer(<uintptr_t> &batch)
    finally:
        # Whoever takes an array over leaves none.
        if batch.release != NULL:
            batch.release(&batch)


for _code in range(256):
    CODES[_code].width = 255
for _row in FORMAT_CODES.values():
    if len(_row.type) > 16:
        raise ImportError("the name of a type is too long for this kernel")
    CODES[_row.code].width = _row.width
    CODES[_row.code].shift = 64 - 8 * _row.width & 63
    CODES[_row.code].kept = min((1 << 8 * _row.width) - 1, 2**64 - 1)
    CODES[_row.code].name_size = len(_row.type)
    for _i, _octet in enumerate(_row.type.encode()):
        CODES[_row.code].name[<int> _i] = _octet
for _plain, _short in zip(b'"\\\b\f\n\r\t', b'"\\bfnrt'):
    SHORT_FORMS[_plain] = _short
for _way, _codes in (
    (NOTHING, (0x40,)),
    (NUMBER, (0x41, 0x42, 0x43)),
    (NUMBER, (0x51, 0x54, 0x55, 0x61, 0x71, 0x81, 0x83)),
    (NUMBER, (0x50, 0x52, 0x60, 0x70)),
    (WORD, (0x44, 0x53, 0x80)),
    (REAL, (0x82,)),
    (OCTETS, (0xA0, 0xA1, 0xA3, 0xB0, 0xB1, 0xB3)),
):
    for _code in _codes:
        CODES[_code].way = _way
# Those with a sign keep it, in all the bits before theirs.
for _code in (0x51, 0x54, 0x55, 0x61, 0x71, 0x81, 0x83):
    CODES[_code].kept = 2**64 - 1
# true
CODES[0x41].added = 1
for _code in (0xA1, 0xB1):
    CODES[_code].rule = UTF8
for _code in (0xA3, 0xB3):
    CODES[_code].rule = ASCII
for _n in range(25):
    _size = min(max(_n - 8, 0), 8)
    WORD_BITS[<int> _n] = int.from_bytes(b"\xff" * _size + bytes(8 - _size), sys.byteorder)
