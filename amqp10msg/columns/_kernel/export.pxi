# Export the columns with Arrow's C data interface. Each array owns its buffers and its children.

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

# An array and its buffer pointers; the pointers to its children follow in the same allocation.
cdef struct Node:
    ArrowArray array
    const void* buffers[3]

cdef enum:
    ZEROS_SIZE = 1 << 24

# The shared buffer of columns without values. It is never written to, so the system maps its pages
# without using memory.
cdef uint8_t[ZEROS_SIZE] ZEROS


cdef const void* zeros(Py_ssize_t size) except NULL:
    """Return a buffer of zeros: ZEROS, or a new buffer if it is larger."""
    cdef const void* made = ZEROS if size <= ZEROS_SIZE else allocate_zeros(size)
    if made == NULL:
        raise MemoryError
    return made


cdef void release_array(ArrowArray* array) noexcept nogil:
    """Free an array with its buffers and children; the callback of Arrow's interface."""
    cdef ArrowArray* child
    cdef int i
    for i in range(array.n_children):
        child = array.children[i]
        if child != NULL and child.release != NULL:
            child.release(child)
    for i in range(array.n_buffers):
        if array.buffers[i] != <const void*> ZEROS:
            release(array.buffers[i])
    array.release = NULL
    free(array.private_data)


cdef ArrowArray* new_array(
    ArrowArray** to, Py_ssize_t length, Py_ssize_t nulls, int buffers, int children
) except NULL:
    """Store a new array in ``to[0]`` and return it; its buffers and children are NULL."""
    cdef Node* node = <Node*> calloc(1, sizeof(Node) + children * sizeof(ArrowArray*))
    if node == NULL:
        raise MemoryError
    node.array.length = length
    node.array.null_count = nulls
    node.array.n_buffers = buffers
    node.array.buffers = node.buffers
    node.array.n_children = children
    node.array.children = <ArrowArray**> (node + 1)
    node.array.release = release_array
    node.array.private_data = node
    to[0] = &node.array
    return to[0]


cdef ArrowArray* add_nulls(ArrowArray** to, int kind, Py_ssize_t count) except NULL:
    """Add an array of nulls."""
    cdef Py_ssize_t size = max(cells_size(kind, count), bits_size(count))
    cdef int buffers = 3 if kind == TEXT else 2, i
    cdef ArrowArray* array = new_array(to, count, count, buffers, kind == LIST)
    for i in range(buffers):
        array.buffers[i] = zeros(size)
    return array


cdef ArrowArray* add_cells(
    ArrowArray** to, Column* column, Py_ssize_t count, Py_ssize_t nulls
) except NULL:
    """Add an array that takes ownership of a column's memory."""
    cdef int buffers = 3 if column.kind == TEXT else 2
    cdef ArrowArray* array = new_array(to, count, nulls, buffers, column.kind == LIST)
    array.buffers[1] = column.cells
    column.cells = NULL
    if buffers == 3:
        array.buffers[2] = column.data
        column.data = NULL
    if nulls:
        array.buffers[0] = column.bits
        column.bits = NULL
    return array


cdef ArrowArray* add_column(ArrowArray** to, Column* column, Py_ssize_t rows) except NULL:
    """Add a column of rows."""
    cdef Py_ssize_t nulls = 0, i
    if column.cells == NULL:
        return add_nulls(to, column.kind, rows)
    if column.written < rows and not fill_nulls(column, rows):
        raise MemoryError
    if column.bits != NULL:
        nulls = count_bits(column.bits, rows)
        for i in range(bits_size(rows)):
            column.bits[i] = ~column.bits[i]
    if has_offsets(column):
        (<int32_t*> column.cells)[rows] = <int32_t> column.size
    return add_cells(to, column, rows, nulls)


cdef ArrowArray* add_member(ArrowArray** to, Column* column, Py_ssize_t count) except NULL:
    """Add a member of the structs of values."""
    if column.cells == NULL:
        return add_nulls(to, column.kind, count)
    if column.kind == TEXT:
        fill_offsets(column, count)
    return add_cells(to, column, count, count - count_bits(column.bits, count))


cdef int add_values(
    ArrowArray** to, Values* values, Py_ssize_t count, bint nullable
) except -1:
    """Add structs of values with the members of `_schema.VALUE`; they may be null if `nullable`."""
    cdef Py_ssize_t nulls = 0, size = bits_size(count)
    cdef ArrowArray* array = new_array(to, count, 0, 1, MEMBERS + 1)
    cdef int i
    if values.room == 0:
        nulls = count if nullable else 0
        add_nulls(&array.children[0], TEXT, count)
    else:
        if nullable:
            nulls = count - count_bits(values.members[TYPE].bits, count)
        add_cells(&array.children[0], &values.members[TYPE], count, nulls)
    array.null_count = nulls
    if nulls:
        # A struct is null if its type is null. Each array owns a copy of the validity bitmap.
        array.buffers[0] = allocate(size)
        if array.buffers[0] == NULL:
            raise MemoryError
        memcpy(<void*> array.buffers[0], array.children[0].buffers[0], size)
    add_nulls(&array.children[1], TEXT, count)
    for i in range(S, MEMBERS):
        add_member(&array.children[i + 1], &values.members[i], count)
    return 0


cdef int add_map(ArrowArray** to, Map* map, Py_ssize_t rows) except -1:
    """Add a map section: a list of structs of key and value."""
    cdef Py_ssize_t count = map.values.count
    cdef ArrowArray* array = add_column(to, &map.rows, rows)
    cdef ArrowArray* entries = new_array(&array.children[0], count, 0, 1, 2)
    if map.keys.cells == NULL:
        add_nulls(&entries.children[0], TEXT, 0)
    else:
        add_cells(&entries.children[0], &map.keys, count, 0)
    return add_values(&entries.children[1], &map.values, count, False)


cdef int add_bytes(ArrowArray** to, Column* column, Py_ssize_t rows) except -1:
    """Add a binary member that is never null: rows without a value have no bytes."""
    cdef ArrowArray* array
    cdef Py_ssize_t size = cells_size(TEXT, rows)
    if column.cells != NULL:
        add_cells(to, column, rows, 0)
        return 0
    array = new_array(to, rows, 0, 3, 0)
    array.buffers[1] = zeros(size)
    return 0


cdef int add_variant(ArrowArray** to, Column* column, Py_ssize_t rows) except -1:
    """Add a VARIANT: a struct of `column`, the value, and the next column, the metadata."""
    cdef ArrowArray* array = new_array(to, rows, 0, 1, 2)
    cdef Py_ssize_t i, size = bits_size(rows)
    for i in range(2):
        if column[i].cells != NULL:
            if column[i].written < rows and not fill_nulls(&column[i], rows):
                raise MemoryError
            (<int32_t*> column[i].cells)[rows] = <int32_t> column[i].size
    if column.cells == NULL:
        array.null_count = rows
        array.buffers[0] = zeros(size)
    elif column.bits != NULL:
        array.null_count = count_bits(column.bits, rows)
        for i in range(size):
            column.bits[i] = ~column.bits[i]
        array.buffers[0] = column.bits
        column.bits = NULL
    for i in range(2):
        add_bytes(&array.children[i], &column[i], rows)
    return 0


cdef int add_numbers(ArrowArray** to, Column* column, Py_ssize_t rows) except -1:
    """Add lists of int64 from a column that contains the numbers as bytes."""
    cdef Py_ssize_t count = column.size // 8, i
    cdef bint is_any = column.cells != NULL
    cdef ArrowArray* array
    cdef int32_t* ends
    column.kind = LIST
    array = add_column(to, column, rows)
    if not is_any:
        add_nulls(&array.children[0], INT64, 0)
        return 0
    ends = <int32_t*> array.buffers[1]
    for i in range(rows + 1):
        ends[i] //= 8
    new_array(&array.children[0], count, 0, 2, 0).buffers[1] = column.data
    column.data = NULL
    return 0


cdef int add_parts(ArrowArray** to, Batch* b) except -1:
    """Add the section offsets: a list of structs of four numbers."""
    cdef Py_ssize_t count = b.parts.size
    cdef ArrowArray* array = add_column(to, &b.parts, b.rows)
    cdef ArrowArray* part = new_array(&array.children[0], count, 0, 1, 4)
    cdef int i
    for i in range(4):
        if b.part_room == 0:
            add_nulls(&part.children[i], INT64, 0)
        else:
            new_array(&part.children[i], count, 0, 2, 0).buffers[1] = b.part_cells[i]
            b.part_cells[i] = NULL
    return 0


cdef export_batch(Batch* b, list results, importer):
    """Export the columns of the result as the children of one struct; return its RecordBatch."""
    cdef ArrowArray batch
    cdef ArrowArray* made = NULL
    cdef ArrowArray** to
    cdef int source, number
    new_array(&made, b.rows, 0, 1, len(results))
    # The importer takes ownership by copying the struct and setting `release` to NULL.
    memcpy(&batch, made, sizeof(ArrowArray))
    to = batch.children
    try:
        for source, number in results:
            if source == COLUMN:
                add_column(to, &b.columns[number], b.rows)
            elif source == MAP:
                add_map(to, &b.map_sections[number], b.rows)
            elif source == PICK:
                add_values(to, &b.picks[number].values, b.rows, True)
            elif source == NUMBERS:
                add_numbers(to, &b.columns[number], b.rows)
            elif source == VARIANT:
                add_variant(to, &b.columns[number], b.rows)
            else:
                add_parts(to, b)
            to += 1
        return importer(<uintptr_t> &batch)
    finally:
        if batch.release != NULL:
            batch.release(&batch)
