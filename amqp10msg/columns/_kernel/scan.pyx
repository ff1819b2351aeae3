# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: annotation_typing=False
"""The kernel of `decode`: from the bytes of messages to Arrow's buffers, without objects between.

Compiled only, and so in Cython's own language; `_plain` does the same where it is not. It is one
module, so that the C compiler inlines across its parts, which are included below in their order.

A message is read once, and what is read is written to the columns on the way. Whatever is not known
to be right (an error, a rare encoding or type, very many entries) makes the row an odd one: what it
wrote is undone, it is left null here, and `_plain` reads it. So an error's reason is found in one
place only.

Every size is compared with what is left before it is used: a cursor never passes the `stop` it was
given, and no `stop` passes the message's end. SPARE bytes after a message can be read, whatever
they are (the last messages of an array are read from a copy), so constructors, sizes and numbers
are read first, sixteen bytes at once, and compared with what is left before they count. Columns
grow before they are written to. Numbers are written as the machine has them, as Arrow wants them.
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

from amqp10msg.wire.kernel.codes import FOLLOWERS
from amqp10msg.columns._cells import FIRST_MS, LAST_MS
from amqp10msg.columns._variant import MOST
from amqp10msg.sections import KINDS
from amqp10msg.wire import limits as _limits

cdef struct Batch

include "../../wire/kernel/leaves.pxi"
include "buffers.pxi"
include "values.pxi"
include "depth.pxi"
include "nested.pxi"
include "fields.pxi"
include "sections.pxi"
include "variant.pxi"

cdef enum:
    SECTIONS = 9
    MAX_COLUMNS = 64
    # The bytes after a message that can be read: a constructor and what is read at once.
    SPARE = 32

if len(KINDS) != SECTIONS:
    raise ImportError(f"this kernel knows {SECTIONS} kinds of section, not {len(KINDS)}")

_NAMES = [kind.name for kind in KINDS]
cdef int APPLICATION_PROPERTIES = _NAMES.index("application-properties")
cdef int DATA = _NAMES.index("data")
cdef int AMQP_VALUE = _NAMES.index("amqp-value")
cdef int FIRST_CODE = KINDS[0].code
# By section + 1: the bits of those that may follow it; the first for the beginning.
cdef uint32_t[SECTIONS + 1] FOLLOWING
for _place, _allowed in enumerate(FOLLOWERS):
    FOLLOWING[<int> _place] = sum([_allowed[kind.code] << i for i, kind in enumerate(KINDS)])
cdef int64_t FREE_ZERO_WIDTH = _limits.FREE_ZERO_WIDTH
cdef int64_t FIRST = FIRST_MS
cdef int64_t LAST = LAST_MS

# How a section is read.
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

# What is asked for, and what has been read of it.
cdef struct Batch:
    # The plan.
    bint[SECTIONS] needs, picked
    int[SECTIONS] ways, first_field, field_count, map_of
    Field[MAX_FIELDS] fields
    int body_kind, body_sections, body, body_json, body_text, body_value, body_lengths
    # The section that is said to be there, and the column that says so; -1 where nobody asks.
    int present, has_properties
    uint8_t[3][16] kind_names
    uint8_t[3] kind_sizes
    bint with_parts
    int64_t max_items, max_zero_width, zero_width_per_byte
    Py_ssize_t max_size, rows
    int max_depth
    # Memory for a message that has no SPARE bytes after it.
    uint8_t* copy
    Py_ssize_t copy_room
    # What the message may still cost, and how deep the values of the map that is read may nest.
    int64_t items, zero_width
    int depth
    # The bytes of text that values without content may still be written out to.
    int64_t zero_room
    # The bytes of the first data section of a message.
    int64_t first_length
    # There is no more room in a column.
    bint full
    # The columns.
    int column_count
    Column[MAX_COLUMNS] columns
    Map[MAX_MAPS] map_sections
    int pick_count
    Pick* picks
    # Validates values that were not requested.
    Column scratch
    Column parts
    Py_ssize_t part_room
    void* part_cells[4]
    # The numbers of the odd rows.
    Column odd

include "export.pxi"
include "messages.pxi"


# Arrays.


cdef void foresee(Batch* b, Py_ssize_t done, Py_ssize_t most) noexcept nogil:
    """Make room as if the other rows were like those that are done, as growing may copy.

    No column gets more than the bytes of the messages could ask for. Where there is no memory for
    that, growing will tell.
    """
    cdef int i
    for i in range(b.column_count):
        foresee_column(&b.columns[i], done, b.rows, most)
    for i in range(MAX_MAPS):
        foresee_column(&b.map_sections[i].keys, done, b.rows, most)
        foresee_values(&b.map_sections[i].values, done, b.rows, most)
    for i in range(b.pick_count):
        foresee_values(&b.picks[i].values, done, b.rows, most)


cdef bint put_odd(Batch* b, int64_t row) noexcept nogil:
    return put_bytes(b, &b.odd, <cursor> &row, 8)


cdef bint null_picks(Batch* b, Py_ssize_t row) noexcept nogil:
    cdef int i
    for i in range(b.pick_count):
        if b.picks[i].values.count == row and not put_null(&b.picks[i].values):
            return full(b)
    return True


cdef cursor copy_of(Batch* b, cursor message, Py_ssize_t n) noexcept nogil:
    """Copy a message to where SPARE bytes after it can be read; NULL without memory."""
    cdef int i
    # What is known of keys lies where the message before was.
    for i in range(MAX_MAPS):
        b.map_sections[i].known_count = 0
    if n + SPARE > b.copy_room:
        if not resize(<void**> &b.copy, 0, n + SPARE, False):
            return NULL
        b.copy_room = n + SPARE
    if n:
        memcpy(b.copy, message, n)
    memset(b.copy + n, 0, SPARE)
    return b.copy


cdef inline int64_t offset_at(cursor offsets, int width, Py_ssize_t place) noexcept nogil:
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
    """Read all rows."""
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
            will_read_lines(data + end, end - start)
            if data_size - end < SPARE and end - start <= b.max_size:
                begin = copy_of(b, begin, end - start)
                if begin == NULL:
                    return FULL
            if end - start > b.max_size or not read_message(b, row, begin, begin + (end - start)):
                if b.full:
                    return FULL
                undo_message(b, row)
                if not put_odd(b, row):
                    return FULL
        if b.pick_count and not null_picks(b, row):
            return FULL
        if row == SEEN - 1 and b.rows >= 2 * SEEN:
            foresee(b, SEEN, data_size)
    return GOOD


cdef void free_batch(Batch* b) noexcept:
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
    free_column(&b.scratch)
    free_column(&b.parts)
    free_column(&b.odd)
    release(b.picks)
    release(b.copy)
    release(b)


cdef void begin_rows(Column* column, int kind) noexcept:
    """Make a column of rows that has no memory yet."""
    column.kind = kind
    column.written = -1


cdef class ColumnPlan:
    """What a projection asks of the kernel; reads as many arrays as there are.

    Args:
        needs: for each kind of section whether its content is read.
        fields: by the index of a composite section, its fields: how each is read, its column, its
            second column (-1: none) and its default or None.
        maps: by the index of a map section, whether the map is a column, and the first of the two
            columns that it has as a VARIANT (-1: not asked for).
        picks: for each entry asked for alone, the index of the map section and the key's bytes.
        properties: the index of that section, and the column that says whether it is there (-1).
        body: the columns of body_kind, body_sections, body, body_json, body_text, the first of
            the two of body_value, and body_lengths; -1: not asked for.
        kinds: the kinds of the columns.
        kind_names: the names of the three body kinds.
        results: for each column of the result its source (COLUMN, MAP, PICK, PARTS,
            NUMBERS or VARIANT) and its number there.
        importer: makes a batch of the address of an ArrowArray.
    """

    # What an empty batch begins as; the picks stand beside it.
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
            raise ValueError("the sections have too many fields, or maps, for this kernel")
        if len(kinds) > MAX_COLUMNS or any([len(name) > 16 for name in kind_names]):
            raise ValueError("there are too many columns, or too long names, for this kernel")
        b.column_count = len(kinds)
        for i in range(b.column_count):
            begin_rows(&b.columns[i], kinds[i])
        begin_rows(&b.parts, LIST)
        begin_rows(&b.scratch, TEXT)
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
                b.ways[section] = BODY if max(body) >= 0 else SKIPPED
            elif needs[section]:
                b.ways[section] = MAPPING if section in maps else COMPOSITE
        for section, rows in fields.items():
            b.first_field[section] = field - b.fields
            b.field_count[section] = len(rows)
            for field.way, field.column_index, field.second_index, default in rows:
                field.small = SMALL_CODES[field.way]
                field.rule = CODES[field.small & 0xFF].rule
                field.has_default = default is not None and field.column_index >= 0
                field.default_value = default or 0
                field += 1
        for i, (section, (wanted, variant)) in enumerate(maps.items()):
            b.map_of[section] = i
            b.map_sections[i].wanted = wanted
            b.map_sections[i].variant_index = variant
        for i in range(MAX_MAPS):
            if i >= len(maps):
                b.map_sections[i].variant_index = -1
            begin_rows(&b.map_sections[i].rows, LIST)
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

        Takes the addresses and sizes of its buffers, which the caller keeps alive; what one message
        may cost: values in compounds, values without content in arrays, bytes, and the depth of
        compounds; and the bytes that all values without content may be written out to.

        Returns:
            The batch, and the numbers of the odd rows.

        Raises:
            OverflowError: a column would exceed Arrow's 32-bit offsets, or `zero_room`.
            ValueError: the buffers are not those of a valid array.
        """
        cdef Batch* b
        cdef cursor data_at = <cursor> <uintptr_t> data
        cdef cursor offsets_at = <cursor> <uintptr_t> offsets
        cdef cursor valid_at = <cursor> <uintptr_t> valid
        cdef Py_ssize_t byte_count = data_size, first_row = first
        cdef int offset_width = width, status
        if first < 0 or rows < 0 or width not in (4, 8):
            raise ValueError("this is not a valid array")
        if rows and (
            (first + rows + 1) * width > offsets_size or (valid and first + rows > valid_size * 8)
        ):
            raise ValueError("the array is shorter than it says")
        b = self.begin()
        try:
            b.rows = rows
            b.max_items = max_items
            b.max_size = max_size
            b.max_zero_width = max_zero_width
            b.zero_width_per_byte = zero_width_per_byte
            b.zero_room = zero_room
            # A section itself is nested, too.
            b.max_depth = min(max_depth - 3, MAX_NESTED)
            with nogil:
                status = read_array(
                    b, data_at, byte_count, offsets_at, offset_width, valid_at, first_row
                )
            if status == FULL:
                raise OverflowError("a column is full")
            if status == INVALID:
                raise ValueError("the offsets of the array point outside of its bytes")
            odd = [(<int64_t*> b.odd.data)[i] for i in range(b.odd.size // 8)]
            return exported(b, self.results, self.importer), odd
        finally:
            free_batch(b)

    cdef Batch* begin(self) except NULL:
        """Make an empty batch."""
        cdef Batch* b = <Batch*> grab(sizeof(Batch))
        cdef bytes key
        cdef int section, i
        if b == NULL:
            raise MemoryError
        memcpy(b, &self.template, sizeof(Batch))
        b.picks = <Pick*> grab_zeros(b.pick_count * sizeof(Pick))
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
            # The plan keeps the key.
            b.picks[i].key = <cursor> <char*> key
            b.picks[i].n = len(key)
            set_kinds(&b.picks[i].values)
        return b
