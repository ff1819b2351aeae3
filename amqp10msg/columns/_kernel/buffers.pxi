# A pool of memory blocks that are reused between batches. Consecutive batches are alike, and
# allocating fresh pages from the system and freeing them costs as much as the decoding.
#
# `pool` contains freed blocks: at most MAX_POOL_SIZE bytes, 32 MiB, in total, so a batch of some
# 20,000 messages of 500 bytes finds all of its memory there. Blocks that do not fit the pool, and
# blocks smaller than MIN_POOLED_SIZE, use malloc and free. Sizes are rounded up to four steps for
# each power of two, with a free list for each step: all blocks in a list have the same size, and at
# most a quarter of a block is wasted. Arrow may free memory on any thread, with or without the GIL,
# so a lock protects the pool. If the lock is taken, `allocate` and `release` use malloc and free
# instead of waiting; so a forked child never waits for a lock that nobody releases.

cdef enum:
    MIN_POOLED_SIZE = 1 << 11
    MAX_POOL_SIZE = 1 << 25

# The header before the bytes of each block. `next` is the next block in the same free list.
cdef struct BlockHeader:
    BlockHeader* next
    Py_ssize_t size

cdef struct Pool:
    PyThread_type_lock lock
    Py_ssize_t size
    BlockHeader* lists[256]

cdef Pool pool
pool.lock = PyThread_allocate_lock()


cdef inline int free_list_of(Py_ssize_t* size) noexcept nogil:
    """Round up a size, and return the index of its free list."""
    cdef int power = 0
    cdef Py_ssize_t quarters = size[0] - 1
    while quarters >= 8:
        quarters >>= 1
        power += 1
    size[0] = quarters + 1 << power
    return 4 * power + <int> (quarters & 3)


cdef inline bint try_lock_pool() noexcept nogil:
    """Take the lock if it is free; return whether it was taken."""
    return pool.lock != NULL and PyThread_acquire_lock(pool.lock, NOWAIT_LOCK) != 0


cdef void* allocate(Py_ssize_t size) noexcept nogil:
    """Allocate memory from the pool or the system; NULL if out of memory."""
    cdef BlockHeader* head = NULL
    cdef int number
    if size >= MIN_POOLED_SIZE:
        number = free_list_of(&size)
        if try_lock_pool():
            head = pool.lists[number]
            if head != NULL:
                pool.lists[number] = head.next
                pool.size -= size
            PyThread_release_lock(pool.lock)
    if head == NULL:
        head = <BlockHeader*> malloc(sizeof(BlockHeader) + size)
        if head == NULL:
            return NULL
        head.size = size
    return head + 1


cdef void release(const void* data) noexcept nogil:
    """Return a block of `allocate` to the pool or the system; NULL is ignored."""
    cdef BlockHeader* head
    cdef int number
    if data == NULL:
        return
    head = <BlockHeader*> data - 1
    if head.size >= MIN_POOLED_SIZE and try_lock_pool():
        number = free_list_of(&head.size)
        if head.size <= MAX_POOL_SIZE - pool.size:
            head.next = pool.lists[number]
            pool.lists[number] = head
            pool.size += head.size
            head = NULL
        PyThread_release_lock(pool.lock)
    free(head)


cdef void* allocate_zeros(Py_ssize_t size) noexcept nogil:
    """Allocate memory filled with zeros; NULL if out of memory."""
    cdef void* data = allocate(size)
    if data != NULL:
        memset(data, 0, size)
    return data


cdef bint resize(void** data, Py_ssize_t before, Py_ssize_t after, bint zeros) noexcept nogil:
    """Grow a block from `before` to `after` bytes; False if out of memory.

    If `zeros`, the new bytes are zeros.
    """
    cdef void* made = allocate(after)
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
# A batch writes to some fifty buffers in turn, each sequentially: too many streams for the hardware
# prefetcher. For batches that exceed the CPU caches (from some 2 MB of messages), waiting for
# memory would take nearly as long as all other work. So each write prefetches the cache line
# WRITE_AHEAD bytes further on. The address may be outside of the buffer, because a prefetch does
# not access it.
cdef extern from *:
    """
    #if defined(__GNUC__)
    /* Without the asm statement, GCC drops calls of a function that only prefetches. */
    #define amqp10msg_prefetch(p, w) \\
        (__extension__ ({ __builtin_prefetch((const void *) (p), w); __asm__ volatile (""); }))
    #else
    #define amqp10msg_prefetch(p, w) ((void) (p))
    #endif
    """
    void prefetch "amqp10msg_prefetch"(uintptr_t, int for_writing) noexcept nogil

cdef enum:
    LINE = 64
    WRITE_AHEAD = 192
    READ_AHEAD = 1024
    # After this many rows, memory for the other rows is reserved by extrapolation.
    SAMPLE_ROWS = 64

# Kinds of columns. A timestamp is an INT64. A LIST column has only the offsets; its children are
# elsewhere.
cpdef enum:
    BOOL = 0
    INT16 = 1
    INT32 = 2
    INT64 = 3
    TEXT = 4
cdef enum:
    LIST = 5
    DECIMAL = 6
# Bytes per cell, by kind; a BOOL is one bit.
cdef int[7] WIDTHS = [0, 2, 4, 8, 4, 4, 16]

# A column of rows, or a member of the structs of values. Its memory is allocated for the first cell
# that is not null.
#
# In most columns of rows, either all cells are null or none. The cells are written in order, and
# gaps are filled later: `written` is the number of cells so far (-1 without memory), and `bits`
# marks the nulls among them (NULL: no nulls). In most members of values, most cells are null. There
# `bits` marks the cells that are not null, all other cells are zeros, and `written` is the number
# of offsets so far, whose gaps are filled in the same way.
#
# `slots` is the number of cells for which memory is allocated. For text, `size` is the number of
# bytes in all cells, and `room` the size of `data`; for lists, `size` is the number of items.
cdef struct Column:
    int kind
    Py_ssize_t slots, written, size, room
    uint8_t* bits
    uint8_t* cells
    uint8_t* data


cdef inline void prefetch_write(const void* begin, Py_ssize_t size) noexcept nogil:
    """Prefetch for writing the cache line WRITE_AHEAD bytes after ``begin + size``."""
    prefetch(<uintptr_t> begin + size + WRITE_AHEAD, 1)


cdef inline void prefetch_write_lines(
    const void* begin, Py_ssize_t size, Py_ssize_t n
) noexcept nogil:
    """Prefetch like `prefetch_write` for n bytes, up to eight cache lines."""
    cdef Py_ssize_t i
    for i in range((min(n, 8 * LINE) + LINE - 1) // LINE):
        prefetch_write(begin, size + LINE * i)


cdef inline void prefetch_read_lines(cursor begin, Py_ssize_t n) noexcept nogil:
    """Prefetch n bytes for reading, READ_AHEAD bytes after `begin`; at most a page (4 KiB)."""
    cdef Py_ssize_t i
    for i in range((min(n, 64 * LINE) + LINE - 1) // LINE):
        prefetch(<uintptr_t> begin + LINE * i + READ_AHEAD, 0)


cdef void free_column(Column* column) noexcept nogil:
    """Free the memory of a column."""
    release(column.bits)
    release(column.cells)
    release(column.data)


cdef inline bint has_offsets(Column* column) noexcept nogil:
    """Return whether the cells of a column are offsets."""
    return column.kind == TEXT or column.kind == LIST


cdef inline void set_bit(uint8_t* bits, Py_ssize_t i) noexcept nogil:
    """Set bit i of a bitmap."""
    bits[i >> 3] |= <uint8_t> (1 << (i & 7))


cdef void clear_bits(uint8_t* bits, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Clear the bits from `begin` to before `end` of a bitmap."""
    cdef Py_ssize_t i
    for i in range(begin, end):
        bits[i >> 3] &= <uint8_t> ~(1 << (i & 7))


cdef inline Py_ssize_t bits_size(Py_ssize_t slots) noexcept nogil:
    """Return the size of a bitmap in bytes, a multiple of 8."""
    return (slots + 63) // 64 * 8


cdef Py_ssize_t count_bits(uint8_t* bits, Py_ssize_t count) noexcept nogil:
    """Count the bits that are set among the first `count`. All later bits must be 0."""
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
    """Return the size of the cells, or offsets, of a column in bytes."""
    if kind == BOOL:
        return bits_size(slots)
    return WIDTHS[kind] * (slots + (kind == TEXT or kind == LIST))


cdef bint make_room(Column* column, Py_ssize_t n) noexcept nogil:
    """Grow the text of a column by n bytes, plus 16 spare bytes.

    Returns False if out of memory, or beyond Arrow's limit for 32-bit offsets.
    """
    cdef Py_ssize_t room
    if n > LARGEST - column.size:
        return False
    if column.room - column.size < n + 16:
        # The first allocation is for SAMPLE_ROWS rows; then `reserve_columns` extrapolates.
        room = 2 * column.room
        if room == 0:
            room = min((n + 16) * min(column.slots, SAMPLE_ROWS), 1 << 16)
        room = max(room, column.size + n + 16, 256)
        if not resize(<void**> &column.data, column.size, room, False):
            return False
        column.room = room
    return True


cdef inline bint has_room(Column* column, Py_ssize_t n) noexcept nogil:
    """Ensure room for n more bytes of text and 16 spare bytes, as `make_room`."""
    return n + 16 <= column.room - column.size or make_room(column, n)


# Columns of rows.


cdef bint allocate_cells(Column* column, Py_ssize_t slots) noexcept nogil:
    """Allocate the cells of a column of rows; False if out of memory."""
    cdef Py_ssize_t size = cells_size(column.kind, slots)
    if not resize(<void**> &column.cells, 0, size, column.kind == BOOL):
        return False
    column.slots = slots
    column.written = 0
    return True


cdef bint fill_nulls(Column* column, Py_ssize_t row) noexcept nogil:
    """Write nulls for the missing rows before `row`; False if out of memory."""
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
    """Write the missing offsets, up to and including the start of cell `end`."""
    cdef int32_t* offsets = <int32_t*> column.cells
    cdef int32_t size = <int32_t> column.size
    cdef Py_ssize_t i = column.written
    while i <= end:
        offsets[i] = size
        i += 1
    column.written = i


cdef void undo_row(Column* column, Py_ssize_t row) noexcept nogil:
    """Remove `row`, the last row, from a column if it has been written."""
    if column.written <= row:
        return
    column.written = row
    if has_offsets(column):
        column.size = (<int32_t*> column.cells)[row]
    elif column.kind == BOOL:
        clear_bits(column.cells, row, row + 1)


cdef bint prepare_cell(Batch* b, Column* column, Py_ssize_t row, Py_ssize_t n) noexcept nogil:
    """Ensure that a cell of n bytes can be written for `row`; mark the batch as full if not."""
    if (
        (column.cells == NULL and not allocate_cells(column, b.rows))
        or (column.written != row and not fill_nulls(column, row))
        or (column.kind == TEXT and not has_room(column, n))
    ):
        return mark_full(b)
    return True


cdef inline void end_text(Column* column, Py_ssize_t row, Py_ssize_t n) noexcept nogil:
    """End a text cell whose n bytes have been written to `data`."""
    (<int32_t*> column.cells)[row] = <int32_t> column.size
    column.written = row + 1
    column.size += n
    prefetch_write(column.cells, 4 * row)
    prefetch_write(column.data, column.size)


cdef inline bint put_text(
    Batch* b, Column* column, Py_ssize_t row, cursor p, Py_ssize_t n, int rule
) noexcept nogil:
    """Write a text cell of n bytes; False if they violate `rule` or the column is full."""
    cdef uint64_t high
    if n + 16 > column.room - column.size or column.written != row:
        if not prepare_cell(b, column, row, n):
            return False
    high = copied(column.data + column.size, p, n)
    if high and rule != ANY and (rule == ASCII or not is_utf8(p, n)):
        return False
    end_text(column, row, n)
    return True


cdef inline uint8_t* begin_text(
    Batch* b, Column* column, Py_ssize_t row, Py_ssize_t n
) noexcept nogil:
    """Begin a text cell of n bytes; return the address to write them to, or NULL.

    Up to 16 bytes more may be written.
    """
    if n + 16 > column.room - column.size or column.written != row:
        if not prepare_cell(b, column, row, n):
            return NULL
    end_text(column, row, n)
    return column.data + column.size - n


cdef inline bint begin_cell(Batch* b, Column* column, Py_ssize_t row) noexcept nogil:
    """Begin a cell of fixed width; False if the column is full."""
    if column.written != row and not prepare_cell(b, column, row, 0):
        return False
    column.written = row + 1
    return True


cdef inline bint begin_list(Batch* b, Column* column, Py_ssize_t row) noexcept nogil:
    """Begin a list: write its offset; False if the column is full."""
    if not begin_cell(b, column, row):
        return False
    (<int32_t*> column.cells)[row] = <int32_t> column.size
    return True


cdef inline bint put_number(
    Batch* b, Column* column, Py_ssize_t row, int64_t number
) noexcept nogil:
    """Write a boolean or a number to a row of a column of any width."""
    if not begin_cell(b, column, row):
        return False
    if column.kind == INT64:
        (<int64_t*> column.cells)[row] = number
        prefetch_write(column.cells, 8 * row)
    elif column.kind == INT32:
        (<int32_t*> column.cells)[row] = <int32_t> number
    elif column.kind == INT16:
        (<int16_t*> column.cells)[row] = <int16_t> number
    elif number:
        set_bit(column.cells, row)
    return True


cdef void reserve_column(
    Column* column, Py_ssize_t done, Py_ssize_t rows, Py_ssize_t max_bytes
) noexcept nogil:
    """Reserve memory for all rows of a text column, at most `max_bytes`.

    The estimate assumes that the other rows are like the `done` rows so far.
    """
    cdef Py_ssize_t expected_size
    if column.kind == TEXT and column.cells != NULL:
        expected_size = min(<Py_ssize_t> (1.05 * <double> column.size / done * rows), max_bytes)
        if expected_size > column.size:
            make_room(column, expected_size - column.size)
