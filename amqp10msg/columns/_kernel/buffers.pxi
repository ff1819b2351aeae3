# Memory that is kept between batches, which are alike and come one after the other. Taking fresh
# pages from the system for each, and giving them back, costs as much as the decoding.
#
# `kept` holds what was freed: at most MOST_KEPT bytes, 32 MiB, in all, so a batch of some 20,000
# messages of 500 bytes finds all of its memory there. What is larger than that, or smaller than
# SMALLEST_KEPT, goes to the system. Sizes are rounded up to four steps for each power of two, with
# a list for each, so that any block of a list serves whoever asks for its size: a quarter of a
# block is wasted at most. Arrow frees with the GIL or without, on any thread, so there is a lock.
# Whoever finds it taken goes to the system; nobody waits, not even the child of a fork.

cdef enum:
    SMALLEST_KEPT = 1 << 11
    MOST_KEPT = 1 << 25

# What stands before the bytes that are given out.
cdef struct Head:
    Head* next
    Py_ssize_t size

cdef struct Kept:
    PyThread_type_lock lock
    Py_ssize_t size
    Head* lists[256]

cdef Kept kept
kept.lock = PyThread_allocate_lock()


cdef inline int list_of(Py_ssize_t* size) noexcept nogil:
    """Return the number of the list for a size, which is rounded up."""
    cdef int power = 0
    cdef Py_ssize_t quarters = size[0] - 1
    while quarters >= 8:
        quarters >>= 1
        power += 1
    size[0] = quarters + 1 << power
    return 4 * power + <int> (quarters & 3)


cdef inline bint lock_kept() noexcept nogil:
    return kept.lock != NULL and PyThread_acquire_lock(kept.lock, NOWAIT_LOCK) != 0


cdef void* grab(Py_ssize_t size) noexcept nogil:
    """Allocate memory, kept or fresh; NULL if there is none."""
    cdef Head* head = NULL
    cdef int number
    if size >= SMALLEST_KEPT:
        number = list_of(&size)
        if lock_kept():
            head = kept.lists[number]
            if head != NULL:
                kept.lists[number] = head.next
                kept.size -= size
            PyThread_release_lock(kept.lock)
    if head == NULL:
        head = <Head*> malloc(sizeof(Head) + size)
        if head == NULL:
            return NULL
        head.size = size
    return head + 1


cdef void release(const void* data) noexcept nogil:
    """Keep or free what `grab` allocated; NULL is nothing."""
    cdef Head* head
    cdef int number
    if data == NULL:
        return
    head = <Head*> data - 1
    if head.size >= SMALLEST_KEPT and lock_kept():
        number = list_of(&head.size)
        if head.size <= MOST_KEPT - kept.size:
            head.next = kept.lists[number]
            kept.lists[number] = head
            kept.size += head.size
            head = NULL
        PyThread_release_lock(kept.lock)
    free(head)


cdef void* grab_zeros(Py_ssize_t size) noexcept nogil:
    cdef void* data = grab(size)
    if data != NULL:
        memset(data, 0, size)
    return data


cdef bint resize(void** data, Py_ssize_t before, Py_ssize_t after, bint zeros) noexcept nogil:
    """Move `before` bytes to more room, with zeros after if asked for; False if there is none."""
    cdef void* made = grab(after)
    if made == NULL:
        return False
    if before:
        memcpy(made, data[0], before)
    if zeros:
        memset(<uint8_t*> made + before, 0, after - before)
    release(data[0])
    data[0] = made
    return True


# Columns, and how they grow.
#
# A batch is written in fifty places in turn, each a little further on: too many for the processor
# to see what comes next. Batches that do not stay in its caches (from some 2 MB of messages) would
# wait for memory nearly as long as they take otherwise, so whoever writes asks for the line AHEAD
# bytes on. That may lie anywhere, as nothing is read.
cdef extern from *:
    """
    #if defined(__GNUC__)
    /* GCC takes a function that only prefetches for one without effect and drops its calls. */
    #define amqp10msg_prefetch(p, w) \\
        (__extension__ ({ __builtin_prefetch((const void *) (p), w); __asm__ volatile (""); }))
    #else
    #define amqp10msg_prefetch(p, w) ((void) (p))
    #endif
    """
    void prefetch "amqp10msg_prefetch"(uintptr_t, int for_writing) noexcept nogil

cdef enum:
    LINE = 64
    AHEAD = 192
    AHEAD_OF_READING = 1024
    # After this many rows, room is made for the others.
    SEEN = 64

# Kinds of columns. A timestamp is an INT64; a LIST has its offsets here, its children elsewhere.
cpdef enum:
    BOOL = 0
    INT16 = 1
    INT32 = 2
    INT64 = 3
    TEXT = 4
cdef enum:
    LIST = 5
    DECIMAL = 6
# The bytes of a cell; a BOOL is one bit.
cdef int[7] WIDTHS = [0, 2, 4, 8, 4, 4, 16]

# A column of rows, or a member of the structs of values. It has no memory before its first cell
# that is not null.
#
# In most columns of rows, all cells are there or none. They are written one after the other, and
# gaps are noted: `written` counts the cells (-1 without memory), and `bits` marks the nulls among
# them; NULL means none. Most members of values are null: there `bits` marks what is not, the other
# cells are zeros, and `written` counts the offsets, which are filled up in the same way.
#
# Of texts, `size` is the bytes that the cells hold and `room` what `data` has room for; of lists,
# `size` is the items, which are elsewhere.
cdef struct Column:
    int kind
    Py_ssize_t slots, written, size, room
    uint8_t* bits
    uint8_t* cells
    uint8_t* data


cdef inline void will_write(const void* begin, Py_ssize_t size) noexcept nogil:
    """Ask for what is going to be written after this many bytes."""
    prefetch(<uintptr_t> begin + size + AHEAD, 1)


cdef inline void will_write_lines(const void* begin, Py_ssize_t size, Py_ssize_t n) noexcept nogil:
    """Ask for the same, n bytes at a time; more than eight lines need no help."""
    cdef Py_ssize_t i
    for i in range((min(n, 8 * LINE) + LINE - 1) // LINE):
        will_write(begin, size + LINE * i)


cdef inline void will_read_lines(cursor begin, Py_ssize_t n) noexcept nogil:
    """Ask for n bytes some messages ahead, as many as this one has, at most a page."""
    cdef Py_ssize_t i
    for i in range((min(n, 64 * LINE) + LINE - 1) // LINE):
        prefetch(<uintptr_t> begin + LINE * i + AHEAD_OF_READING, 0)


cdef void free_column(Column* column) noexcept nogil:
    release(column.bits)
    release(column.cells)
    release(column.data)


cdef inline bint has_offsets(Column* column) noexcept nogil:
    return column.kind == TEXT or column.kind == LIST


cdef inline void set_bit(uint8_t* bits, Py_ssize_t i) noexcept nogil:
    bits[i >> 3] |= <uint8_t> (1 << (i & 7))


cdef void clear_bits(uint8_t* bits, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(begin, end):
        bits[i >> 3] &= <uint8_t> ~(1 << (i & 7))


cdef inline Py_ssize_t bits_size(Py_ssize_t slots) noexcept nogil:
    """Return the bytes of a bitmap, in whole words."""
    return (slots + 63) // 64 * 8


cdef Py_ssize_t count_bits(uint8_t* bits, Py_ssize_t count) noexcept nogil:
    """Count the bits set among the first `count`. None is set after them."""
    cdef Py_ssize_t total = 0, i
    cdef uint64_t word
    for i in range(bits_size(count) // 8):
        word = word_at(bits + 8 * i)
        word -= word >> 1 & <uint64_t> 0x5555555555555555
        word = (word & <uint64_t> 0x3333333333333333) + (word >> 2 & <uint64_t> 0x3333333333333333)
        word = word + (word >> 4) & <uint64_t> 0x0F0F0F0F0F0F0F0F
        total += <Py_ssize_t> (word * <uint64_t> 0x0101010101010101 >> 56)
    return total


cdef inline Py_ssize_t cells_size(int kind, Py_ssize_t slots) noexcept nogil:
    """Return the bytes of this many cells."""
    if kind == BOOL:
        return bits_size(slots)
    return WIDTHS[kind] * (slots + (kind == TEXT or kind == LIST))


cdef bint make_room(Column* column, Py_ssize_t n) noexcept nogil:
    """Make room for n more bytes of text plus 16 of slack; False past Arrow's bound or memory."""
    cdef Py_ssize_t room
    if n > LARGEST - column.size:
        return False
    if column.room - column.size < n + 16:
        # The first time for as many rows as `foresee` looks at.
        room = 2 * column.room if column.room else min((n + 16) * min(column.slots, SEEN), 1 << 16)
        room = max(room, column.size + n + 16, 256)
        if not resize(<void**> &column.data, column.size, room, False):
            return False
        column.room = room
    return True


cdef inline bint has_room(Column* column, Py_ssize_t n) noexcept nogil:
    return n + 16 <= column.room - column.size or make_room(column, n)


# Columns of rows.


cdef bint begin_column(Column* column, Py_ssize_t slots) noexcept nogil:
    """Allocate the cells of a column of rows; False without memory."""
    cdef Py_ssize_t size = cells_size(column.kind, slots)
    if not resize(<void**> &column.cells, 0, size, column.kind == BOOL):
        return False
    column.slots = slots
    column.written = 0
    return True


cdef bint fill_nulls(Column* column, Py_ssize_t row) noexcept nogil:
    """Make the rows that are missing before this one null; False without memory."""
    cdef Py_ssize_t width = WIDTHS[column.kind], i
    if column.bits == NULL and not resize(
        <void**> &column.bits, 0, bits_size(column.slots), True
    ):
        return False
    for i in range(column.written, row):
        set_bit(column.bits, i)
    if has_offsets(column):
        fill_offsets(column, row - 1)
    else:
        memset(column.cells + width * column.written, 0, width * (row - column.written))
    column.written = row
    return True


cdef inline void fill_offsets(Column* column, Py_ssize_t end) noexcept nogil:
    """Write the missing offsets, up to where cell `end` begins."""
    cdef int32_t* offsets = <int32_t*> column.cells
    cdef int32_t size = <int32_t> column.size
    cdef Py_ssize_t i = column.written
    while i <= end:
        offsets[i] = size
        i += 1
    column.written = i


cdef void undo_row(Column* column, Py_ssize_t row) noexcept nogil:
    """Take back the last row of a column, if it has been written."""
    if column.written <= row:
        return
    column.written = row
    if has_offsets(column):
        column.size = (<int32_t*> column.cells)[row]
    elif column.kind == BOOL:
        clear_bits(column.cells, row, row + 1)


cdef bint prepare(Batch* b, Column* column, Py_ssize_t row, Py_ssize_t n) noexcept nogil:
    """Make a column ready for a cell of n bytes in a row."""
    if (
        (column.cells == NULL and not begin_column(column, b.rows))
        or (column.written != row and not fill_nulls(column, row))
        or (column.kind == TEXT and not has_room(column, n))
    ):
        return full(b)
    return True


cdef inline void end_text(Column* column, Py_ssize_t row, Py_ssize_t n) noexcept nogil:
    """Make the n bytes after the last ones a row."""
    (<int32_t*> column.cells)[row] = <int32_t> column.size
    column.written = row + 1
    column.size += n
    will_write(column.cells, 4 * row)
    will_write(column.data, column.size)


cdef inline bint put_text(
    Batch* b, Column* column, Py_ssize_t row, cursor p, Py_ssize_t n, int rule
) noexcept nogil:
    """Write n bytes into a row; False if they break the rule."""
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
    """Begin a row of n bytes: return where to write them (up to 16 more fit), or NULL."""
    if n + 16 > column.room - column.size or column.written != row:
        if not prepare(b, column, row, n):
            return NULL
    end_text(column, row, n)
    return column.data + column.size - n


cdef inline bint begin_cell(Batch* b, Column* column, Py_ssize_t row) noexcept nogil:
    if column.written != row and not prepare(b, column, row, 0):
        return False
    column.written = row + 1
    return True


cdef inline bint begin_list(Batch* b, Column* column, Py_ssize_t row) noexcept nogil:
    if not begin_cell(b, column, row):
        return False
    (<int32_t*> column.cells)[row] = <int32_t> column.size
    return True


cdef inline bint put_number(
    Batch* b, Column* column, Py_ssize_t row, int64_t number
) noexcept nogil:
    """Write a boolean or a number into a row of whatever width."""
    if not begin_cell(b, column, row):
        return False
    if column.kind == INT64:
        (<int64_t*> column.cells)[row] = number
        will_write(column.cells, 8 * row)
    elif column.kind == INT32:
        (<int32_t*> column.cells)[row] = <int32_t> number
    elif column.kind == INT16:
        (<int16_t*> column.cells)[row] = <int16_t> number
    elif number:
        set_bit(column.cells, row)
    return True


cdef void foresee_column(
    Column* column, Py_ssize_t done, Py_ssize_t rows, Py_ssize_t most
) noexcept nogil:
    """Make room in a column of text as if the other rows were like those that are done."""
    cdef Py_ssize_t wanted
    if column.kind == TEXT and column.cells != NULL:
        wanted = min(<Py_ssize_t> (1.05 * <double> column.size / done * rows), most)
        if wanted > column.size:
            make_room(column, wanted - column.size)
