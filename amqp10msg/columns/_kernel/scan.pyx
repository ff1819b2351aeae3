# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: annotation_typing=False
"""The kernel of `decode`: converts encoded messages to Arrow buffers, without Python objects.

The kernel only runs compiled, so it is written in Cython; `_plain` is the Python implementation.
The kernel is one module, so that the C compiler can inline functions across its parts, which are
included below.

A message is read once, and its values are written to the columns while reading. If the kernel finds
an error, or something that it does not handle (a rare encoding or type, very many entries), the row
is *unsupported*: what has been written for it is removed, the row is null in the kernel's result,
and `_plain` decodes it. So only `_plain` determines the reasons of errors.

Every size is compared with the remaining bytes before it is used: a cursor never passes the `stop`
of its function, and no `stop` is after the end of the message. PADDING bytes after a message can be
read, whatever they contain (the last messages of an array are copied for that). So constructors,
sizes and numbers are read sixteen bytes at a time, and compared with the remaining bytes
afterwards. Columns grow before they are written to. Numbers are in the machine's byte order, as in
Arrow.
"""

from libc.stdint cimport uintptr_t
from libc.stdlib cimport calloc, free, malloc
from cpython.pythread cimport (
    NOWAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_release_lock,
    PyThread_type_lock,
)

from amqp10msg.wire.kernel.codes import ALLOWED_NEXT_SECTIONS
from amqp10msg.columns._cells import MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS
from amqp10msg.columns._variant import MAX_VARIANT_BYTES
from amqp10msg.sections import KINDS
from amqp10msg.wire import limits as _limits

cdef struct Batch

include "../../wire/kernel/leaves.pxi"
include "buffers.pxi"
include "values.pxi"
include "shared.pxi"
include "nested.pxi"
include "json.pxi"
include "sections.pxi"
include "variant.pxi"

cdef enum:
    SECTIONS = 9
    MAX_COLUMNS = 64
    # Bytes after a message that can be read: enough for a constructor and the longest single read.
    PADDING = 32

if len(KINDS) != SECTIONS:
    raise ImportError(f"this kernel expects {SECTIONS} kinds of section, not {len(KINDS)}")

_NAMES = [kind.name for kind in KINDS]
cdef int APPLICATION_PROPERTIES = _NAMES.index("application-properties")
cdef int DATA = _NAMES.index("data")
cdef int AMQP_VALUE = _NAMES.index("amqp-value")
cdef int FIRST_CODE = KINDS[0].code
# For each section index + 1, a bit mask of the sections that may follow; index 0 is the start of
# the message.
cdef uint32_t[SECTIONS + 1] FOLLOWING
for _place, _allowed in enumerate(ALLOWED_NEXT_SECTIONS):
    FOLLOWING[<int> _place] = sum([_allowed[kind.code] << i for i, kind in enumerate(KINDS)])
cdef int64_t FREE_ZERO_WIDTH = _limits.FREE_ZERO_WIDTH
cdef int64_t FIRST = MIN_TIMESTAMP_MS
cdef int64_t LAST = MAX_TIMESTAMP_MS

# How to read a section.
cdef enum:
    SKIPPED
    COMPOSITE
    MAPPING
    BODY

# Where a column of the result comes from.
cpdef enum:
    COLUMN
    MAP
    PICK
    PARTS
    NUMBERS
    VARIANT

# The widths of the members of section offsets: code, offset, content, end.
cdef int[4] PART_WIDTHS = [2, 8, 8, 8]

# The plan for a batch, and the columns that have been read.
cdef struct Batch:
    # The plan.
    bint[SECTIONS] needs, picked
    int[SECTIONS] section_shapes, first_field, field_count, map_of
    Field[MAX_FIELDS] fields
    int body_kind, body_sections, body, body_json, body_text, body_value, body_lengths
    # The index of the properties section, and of the column has_properties; -1 if not selected.
    int present, has_properties
    uint8_t[3][16] kind_names
    uint8_t[3] kind_sizes
    bint with_parts
    int64_t max_items, max_zero_width, zero_width_per_byte
    Py_ssize_t max_size, rows
    int max_depth
    # A buffer for a message that is not followed by PADDING bytes.
    uint8_t* copy
    Py_ssize_t copy_room
    # Remaining limits of the message: values in compounds, values without content, and the levels
    # of nesting in the map that is being read.
    int64_t items, zero_width
    int depth
    # Remaining bytes of output for values without content, for the batch.
    int64_t zero_room
    # The size of the first data section of the message, in bytes.
    int64_t first_length
    # Whether a column cannot grow any more.
    bint full
    # The columns.
    int column_count
    Column[MAX_COLUMNS] columns
    Map[MAX_MAPS] map_sections
    int pick_count
    Pick* picks
    Column parts
    Py_ssize_t part_room
    void* part_cells[4]
    # The indexes of the unsupported rows, as int64.
    Column unsupported

include "export.pxi"
include "messages.pxi"


# Read arrays.


cdef void reserve_columns(Batch* b, Py_ssize_t done, Py_ssize_t max_bytes) noexcept nogil:
    """Reserve memory for all rows, to avoid copies when columns grow.

    The estimate assumes that the other rows are like the `done` rows so far. `max_bytes` is the
    size of all messages, which limits each column. A failed allocation is ignored: a column that
    really needs the memory will report it.
    """
    cdef int i
    for i in range(b.column_count):
        reserve_column(&b.columns[i], done, b.rows, max_bytes)
    for i in range(MAX_MAPS):
        reserve_column(&b.map_sections[i].keys, done, b.rows, max_bytes)
        reserve_values(&b.map_sections[i].values, done, b.rows, max_bytes)
    for i in range(b.pick_count):
        reserve_values(&b.picks[i].values, done, b.rows, max_bytes)


cdef bint put_unsupported(Batch* b, int64_t row) noexcept nogil:
    """Add a row to the indexes of unsupported rows; False if out of memory."""
    return put_bytes(b, &b.unsupported, <cursor> &row, 8)


cdef bint null_picks(Batch* b, Py_ssize_t row) noexcept nogil:
    """Add a null for `row` to each picked entry that the message does not have."""
    cdef int i
    for i in range(b.pick_count):
        if b.picks[i].values.count == row and not put_null(&b.picks[i].values):
            return mark_full(b)
    return True


cdef cursor copy_with_padding(Batch* b, cursor message, Py_ssize_t n) noexcept nogil:
    """Copy a message to a buffer with PADDING bytes after it; NULL if out of memory."""
    cdef int i
    # The cached keys may point into the buffer: forget them.
    for i in range(MAX_MAPS):
        b.map_sections[i].cached_count = 0
    if n + PADDING > b.copy_room:
        if not resize(<void**> &b.copy, 0, n + PADDING, False):
            return NULL
        b.copy_room = n + PADDING
    if n:
        memcpy(b.copy, message, n)
    memset(b.copy + n, 0, PADDING)
    return b.copy


cdef inline int64_t offset_at(cursor offsets, int width, Py_ssize_t place) noexcept nogil:
    """Read the offset at an index from Arrow offsets of 4 or 8 bytes."""
    cdef int32_t small
    cdef int64_t large
    if width == 4:
        memcpy(&small, offsets + 4 * place, 4)
        return small
    memcpy(&large, offsets + 8 * place, 8)
    return large


cdef enum:
    INVALID = 3


cdef int read_array(
    Batch* b, cursor data, Py_ssize_t data_size, cursor offsets, int width, cursor valid,
    Py_ssize_t first,
) noexcept nogil:
    """Read all messages of an array; return OK, FULL or INVALID."""
    cdef cursor begin
    cdef Py_ssize_t row, place
    cdef int64_t start, end
    for row in range(b.rows):
        place = first + row
        if valid == NULL or valid[place >> 3] >> (place & 7) & 1:
            start = offset_at(offsets, width, place)
            end = offset_at(offsets, width, place + 1)
            if not 0 <= start <= end <= data_size:
                return INVALID
            begin = data + start
            prefetch_read_lines(data + end, end - start)
            if data_size - end < PADDING and end - start <= b.max_size:
                begin = copy_with_padding(b, begin, end - start)
                if begin == NULL:
                    return FULL
            if end - start > b.max_size or not read_message(b, row, begin, begin + (end - start)):
                if b.full:
                    return FULL
                undo_message(b, row)
                if not put_unsupported(b, row):
                    return FULL
        if b.pick_count and not null_picks(b, row):
            return FULL
        if row == SAMPLE_ROWS - 1 and b.rows >= 2 * SAMPLE_ROWS:
            reserve_columns(b, SAMPLE_ROWS, data_size)
    return OK


cdef void free_batch(Batch* b) noexcept:
    """Free a batch and the memory of its columns."""
    cdef int i
    for i in range(b.column_count):
        free_column(&b.columns[i])
    if b.picks != NULL:
        for i in range(b.pick_count):
            free_values(&b.picks[i].values)
    for i in range(MAX_MAPS):
        free_column(&b.map_sections[i].rows)
        free_column(&b.map_sections[i].keys)
        free_values(&b.map_sections[i].values)
    for i in range(4):
        release(b.part_cells[i])
    free_column(&b.parts)
    free_column(&b.unsupported)
    release(b.picks)
    release(b.copy)
    release(b)


cdef void init_column(Column* column, int kind) noexcept:
    """Initialise a column of rows, without allocating memory."""
    column.kind = kind
    column.written = -1


cdef class ColumnPlan:
    """The kernel's plan for a selection of columns; it can read any number of arrays.

    In the arguments, a column is an index in `kinds`, or -1 if it is not selected.

    Args:
        needs: for each kind of section, whether its content is read.
        fields: the fields of each composite section, by the index of the section: the kind of the
            field (such as UINT_FIELD), its column, its second column, and its default or None.
        maps: for each map section, by its index: whether the map is a column, and the first of the
            two columns of the map as a VARIANT.
        picks: for each picked entry: the index of the map section, and the key as bytes.
        properties: the index of the properties section, and the column has_properties.
        body: the columns body_kind, body_sections, body, body_json and body_text, the first of the
            two columns of body_value, and the column body_lengths.
        kinds: the kind of each column, such as INT64.
        kind_names: the names of the three body kinds.
        results: for each column of the result: its source (COLUMN, MAP, PICK, PARTS, NUMBERS or
            VARIANT), and its index there.
        importer: converts the address of an ArrowArray to a RecordBatch.
    """

    # The initial state of a batch, without the picks.
    cdef Batch template
    cdef list picks
    cdef list results
    cdef object importer

    def __init__(
        self, *, needs, fields, maps, picks, properties, body, kinds, kind_names, results, importer
    ):
        cdef Batch* b = &self.template
        cdef Field* field = b.fields
        cdef int section, i, j
        if sum(map(len, fields.values())) > MAX_FIELDS or len(maps) > MAX_MAPS:
            raise ValueError("this kernel does not support so many fields or map sections")
        if len(kinds) > MAX_COLUMNS or any([len(name) > 16 for name in kind_names]):
            raise ValueError("this kernel does not support so many columns, or such long names")
        b.column_count = len(kinds)
        for i in range(b.column_count):
            init_column(&b.columns[i], kinds[i])
        init_column(&b.parts, LIST)
        b.present, b.has_properties = properties
        if b.has_properties < 0:
            b.present = -1
        (
            b.body_kind, b.body_sections, b.body, b.body_json, b.body_text, b.body_value,
            b.body_lengths,
        ) = body
        for section in range(SECTIONS):
            b.needs[section] = needs[section]
            if KINDS[section].attribute == "body":
                b.section_shapes[section] = BODY if needs[section] or max(body) >= 0 else SKIPPED
            elif needs[section]:
                b.section_shapes[section] = MAPPING if section in maps else COMPOSITE
        for section, rows in fields.items():
            b.first_field[section] = field - b.fields
            b.field_count[section] = len(rows)
            for field.kind, field.column_index, field.second_index, default in rows:
                field.small = SMALL_CODES[field.kind]
                field.rule = CODES[field.small & 0xFF].rule
                field.has_default = default is not None and field.column_index >= 0
                field.default_value = default or 0
                field += 1
        for i, (section, (is_column, variant)) in enumerate(maps.items()):
            b.map_of[section] = i
            b.map_sections[i].is_column = is_column
            b.map_sections[i].variant_index = variant
        for i in range(MAX_MAPS):
            if i >= len(maps):
                b.map_sections[i].variant_index = -1
            init_column(&b.map_sections[i].rows, LIST)
            b.map_sections[i].keys.kind = TEXT
            set_kinds(&b.map_sections[i].values)
        for i, name in enumerate(kind_names):
            b.kind_sizes[i] = len(name)
            for j, octet in enumerate(name):
                b.kind_names[i][j] = octet
        self.picks = [(int(section), bytes(key)) for section, key in picks]
        b.pick_count = len(self.picks)
        for section, _ in self.picks:
            b.picked[section] = True
        self.results = list(results)
        b.with_parts = any([source == PARTS for source, _ in self.results])
        self.importer = importer

    def read(
        self, data: int, data_size: int, offsets: int, offsets_size: int, width: int, valid: int,
        valid_size: int, first: int, rows: int, max_items: int, max_zero_width: int,
        zero_width_per_byte: int, max_size: int, max_depth: int, zero_room: int,
    ):
        """Read the messages of an array of binary (width 4) or large_binary (8).

        Args:
            data, data_size: the address and size of the buffer of bytes.
            offsets, offsets_size: the address and size of the buffer of offsets.
            width: the size of an offset, 4 or 8 bytes.
            valid, valid_size: the address and size of the validity bitmap; 0 without nulls.
            first: the index of the first row in the buffers.
            rows: the number of rows.
            max_items: maximum number of values in the compounds of a message.
            max_zero_width: maximum number of values without content in the arrays of a message.
            zero_width_per_byte: a second limit of such values: FREE_ZERO_WIDTH, plus this number
                for each byte of the message.
            max_size: maximum size of a message in bytes.
            max_depth: maximum levels of nested compounds.
            zero_room: maximum bytes of output for all values without content.

        The caller must keep the buffers alive.

        Returns:
            The batch, and the indexes of the unsupported rows.

        Raises:
            OverflowError: a column would exceed Arrow's 32-bit offsets, or `zero_room`.
            ValueError: the array is not valid.
        """
        cdef Batch* b
        cdef cursor data_at = <cursor> <uintptr_t> data
        cdef cursor offsets_at = <cursor> <uintptr_t> offsets
        cdef cursor valid_at = <cursor> <uintptr_t> valid
        cdef Py_ssize_t byte_count = data_size, first_row = first
        cdef int offset_width = width, status
        if first < 0 or rows < 0 or width not in (4, 8):
            raise ValueError("the first row, row count or offset width of the array is invalid")
        if rows and (
            (first + rows + 1) * width > offsets_size or (valid and first + rows > valid_size * 8)
        ):
            raise ValueError("a buffer of the array is too small for its rows")
        b = self.begin()
        try:
            b.rows = rows
            b.max_items = max_items
            b.max_size = max_size
            b.max_zero_width = max_zero_width
            b.zero_width_per_byte = zero_width_per_byte
            b.zero_room = zero_room
            # The section itself also counts as levels of nesting.
            b.max_depth = min(max_depth - 3, MAX_NESTED)
            with nogil:
                status = read_array(
                    b, data_at, byte_count, offsets_at, offset_width, valid_at, first_row
                )
            if status == FULL:
                raise OverflowError("a column exceeds the limit of 32-bit offsets, or the memory")
            if status == INVALID:
                raise ValueError("the offsets of the array point outside of its bytes")
            unsupported = [
                (<int64_t*> b.unsupported.data)[i] for i in range(b.unsupported.size // 8)
            ]
            return export_batch(b, self.results, self.importer), unsupported
        finally:
            free_batch(b)

    cdef Batch* begin(self) except NULL:
        """Return a new empty batch."""
        cdef Batch* b = <Batch*> allocate(sizeof(Batch))
        cdef bytes key
        cdef int section, i
        if b == NULL:
            raise MemoryError
        memcpy(b, &self.template, sizeof(Batch))
        b.picks = <Pick*> allocate_zeros(b.pick_count * sizeof(Pick))
        if b.picks == NULL:
            free_batch(b)
            raise MemoryError
        for i in range(MAX_FIELDS):
            b.fields[i].column = column_at(b, b.fields[i].column_index)
            b.fields[i].second = column_at(b, b.fields[i].second_index)
        for i in range(MAX_MAPS):
            b.map_sections[i].variant = column_at(b, b.map_sections[i].variant_index)
        for i, (section, key) in enumerate(self.picks):
            b.picks[i].section = section
            # `self.picks` keeps the bytes of the key alive.
            b.picks[i].key = <cursor> <char*> key
            b.picks[i].n = len(key)
            set_kinds(&b.picks[i].values)
        return b
