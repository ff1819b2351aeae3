# C types for _scan.py. Changes in the same commit as _scan.py.
#
# Pointers are allowed here, unlike in _wire: every function that reads through one has compared the
# place with what is left, and every function that writes has made room.

from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

cimport cython

ctypedef const unsigned char* octets

# The bits that no octet of ASCII has, eight at a time.
cdef uint64_t _HIGH
cdef Py_ssize_t _LARGEST
cdef int64_t _FIRST_MS
cdef int64_t _LAST_MS
cdef unsigned char _SKIPPED[256]
cdef int _WIDTHS[5]
cdef Py_ssize_t _SMALLEST_KEPT
cdef Py_ssize_t _MOST_KEPT
# Freed memory that is kept: the blocks, how many there are, and their octets.
cdef struct Block:
    void* data
    Py_ssize_t room
cdef Block _KEPT[128]
cdef int _KEPT_COUNT[1]
cdef Py_ssize_t _KEPT_SIZE[1]
cdef uint64_t _FIRST_HIGH[8]

# What a field or a value is: its constructor, and where its octets are or what number it is.
cdef struct Slot:
    int code
    Py_ssize_t start
    Py_ssize_t n
    int64_t number
    Py_ssize_t key
    Py_ssize_t key_n

# How a field of a composite is read, and which columns it goes to (-1: none).
cdef struct FieldRow:
    int kind
    int column
    int second
    bint has_fallback
    int64_t fallback

cdef struct Part:
    int code
    Py_ssize_t start
    Py_ssize_t content
    Py_ssize_t end

# A growing run of octets.
cdef struct Run:
    unsigned char* data
    Py_ssize_t size
    Py_ssize_t room

# A column of a cell a row. Bitmaps and numbers begin as zeros, so a null writes nothing.
cdef struct Column:
    int kind
    Py_ssize_t present
    unsigned char* valid
    unsigned char* values
    int32_t* offsets
    Py_ssize_t written
    Run run

# The structs of values, one behind the other.
cdef struct Values:
    Py_ssize_t count
    Py_ssize_t room
    unsigned char* valid
    int32_t* type_offsets
    Run types
    unsigned char* s_valid
    int32_t* s_offsets
    Run s
    unsigned char* l_valid
    int64_t* l
    unsigned char* d_valid
    uint64_t* d
    unsigned char* b_valid
    int32_t* b_offsets
    Run b
    unsigned char* u_valid
    uint64_t* u

# A map section: its offsets by row, its keys, its values.
cdef struct Map:
    bint wanted
    Py_ssize_t present
    unsigned char* valid
    int32_t* offsets
    int32_t* key_offsets
    Py_ssize_t key_room
    Run keys
    Values values

# An entry of a map that is asked for alone.
cdef struct Pick:
    int section
    octets key
    Py_ssize_t n
    Values values


@cython.final
cdef class Memory:
    cdef void* data
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t room


@cython.locals(made=Memory)
cdef Memory owned(void* data, Py_ssize_t size, Py_ssize_t room)
@cython.locals(best=int, i=int, room=Py_ssize_t, data="void*")
cdef void* grab(Py_ssize_t size) noexcept
@cython.locals(data="void*")
cdef void* grab_zeros(Py_ssize_t size) noexcept
cdef void release(void* data, Py_ssize_t room) noexcept
@cython.locals(made="void*")
cdef void* resized(void* data, Py_ssize_t before, Py_ssize_t after) noexcept nogil

@cython.locals(a=uint32_t, b=uint32_t, c=uint32_t, d=uint32_t)
cdef uint32_t u32(octets p) noexcept nogil
@cython.locals(high=uint64_t, low=uint64_t)
cdef uint64_t u64(octets p) noexcept nogil
@cython.locals(i=Py_ssize_t, word=uint64_t)
cdef bint is_ascii(octets p, Py_ssize_t n, Py_ssize_t left) noexcept nogil
@cython.locals(i=Py_ssize_t, word=uint64_t, c=int, d=int)
cdef bint is_utf8(octets p, Py_ssize_t n) noexcept nogil
cdef void set_bit(unsigned char* bits, Py_ssize_t i) noexcept nogil
@cython.locals(room=Py_ssize_t, data="unsigned char*")
cdef bint make_room(Run* run, Py_ssize_t n) noexcept nogil
cdef bint put_octets(Run* run, octets p, Py_ssize_t n, Py_ssize_t left) noexcept nogil
@cython.locals(i=Py_ssize_t, size=int32_t)
cdef void fill_offsets(Column* column, Py_ssize_t end) noexcept nogil
@cython.locals(digits="unsigned char[20]", i=int)
cdef bint put_digits(Run* run, uint64_t number) noexcept nogil
@cython.locals(i=Py_ssize_t, out="unsigned char*")
cdef bint put_hex(Run* run, octets p, Py_ssize_t n) noexcept nogil
cdef unsigned char hex_digit(int number) noexcept nogil
@cython.locals(i=int, out="unsigned char*")
cdef bint put_uuid(Run* run, octets p) noexcept nogil
@cython.locals(out="unsigned char*")
cdef bint put_character(Run* run, uint32_t point) noexcept nogil
cdef bint room_for(Values* values, int count) noexcept nogil
cdef bint put_null(Values* values) noexcept nogil
cdef void close_value(Values* values) noexcept nogil
@cython.locals(n=Py_ssize_t, bits=Py_ssize_t, ends=Py_ssize_t, bit_room=Py_ssize_t,
               end_room=Py_ssize_t)
cdef dict given(Values* values)
@cython.locals(made="unsigned char*")
cdef void* regrown(void* data, Py_ssize_t before, Py_ssize_t after) noexcept nogil
@cython.locals(room=Py_ssize_t, bits=Py_ssize_t, old=Py_ssize_t, made="void*")
cdef bint grow_values(Values* values, Py_ssize_t least) noexcept nogil
@cython.locals(i=Py_ssize_t)
cdef void clear_numbers(Values* values) noexcept nogil
cdef Py_ssize_t foreseen(double size, double done, double rows) noexcept nogil
@cython.locals(wanted=Py_ssize_t)
cdef void foresee_run(Run* run, Py_ssize_t done, Py_ssize_t rows, Py_ssize_t most) noexcept nogil
@cython.locals(wanted=Py_ssize_t)
cdef void foresee_values(Values* values, Py_ssize_t done, Py_ssize_t rows,
                         Py_ssize_t most) noexcept nogil
cdef void free_values(Values* values) noexcept


@cython.final
cdef class Scanner:
    # The message that is read.
    cdef octets buf
    cdef Py_ssize_t size
    cdef Py_ssize_t pos
    cdef Py_ssize_t stop
    cdef Py_ssize_t count
    cdef Py_ssize_t at
    cdef Py_ssize_t n
    cdef int64_t items
    # What one message may cost.
    cdef int64_t max_items
    cdef Py_ssize_t max_size
    # The plan.
    cdef bint needs[9]
    cdef FieldRow fields[32]
    cdef int first_field[9]
    cdef int field_count[9]
    cdef int filled[9]
    cdef int map_of[9]
    cdef int body_kind
    cdef int body_sections
    cdef int body
    cdef int body_json
    cdef bint with_parts
    cdef unsigned char names[4096]
    cdef unsigned char name_sizes[256]
    cdef unsigned char kind_names[96]
    cdef unsigned char kind_sizes[3]
    cdef list keys
    # What the message was found to say.
    cdef bint found[9]
    cdef Slot slots[32]
    cdef Slot entries[256]
    cdef int entry_count
    cdef int map_first[4]
    cdef int map_count[4]
    cdef Part parts[128]
    cdef int part_count
    cdef Part datas[64]
    cdef int data_count
    # The columns.
    cdef Py_ssize_t rows
    cdef Column* columns
    cdef int column_count
    cdef Map maps[4]
    cdef Pick* picks
    cdef int pick_count
    cdef int32_t* part_offsets
    cdef unsigned char* part_valid
    cdef Py_ssize_t parts_present
    cdef Py_ssize_t parts_written
    cdef Py_ssize_t part_room
    cdef int16_t* part_codes
    cdef int64_t* part_starts
    cdef int64_t* part_contents
    cdef int64_t* part_ends
    cdef Run odd

    @cython.locals(column="Column*", n=Py_ssize_t, bits=Py_ssize_t, i=int)
    cdef int allocate(self) except -1

    cdef bint span(self, int code) noexcept nogil
    @cython.locals(size=Py_ssize_t, stop=Py_ssize_t, count=Py_ssize_t)
    cdef Py_ssize_t open(self, int code) noexcept nogil
    @cython.locals(code=int, stop=Py_ssize_t, total=int, i=int, slot="Slot*", first=int)
    cdef bint composite(self, int section) noexcept nogil
    @cython.locals(code=int)
    cdef bint field(self, Slot* slot, int kind) noexcept nogil
    @cython.locals(code=int, left=Py_ssize_t, at=octets, word=uint32_t)
    cdef bint number(self, Slot* slot) noexcept nogil
    @cython.locals(code=int)
    cdef bint text(self, Slot* slot) noexcept nogil
    @cython.locals(code=int, which=int, stop=Py_ssize_t, pairs=int, i=int, j=int, slot="Slot*",
                   other="Slot*", first="Slot*", wanted=int)
    cdef bint mapping(self, int section) noexcept nogil
    @cython.locals(code=int)
    cdef bint value(self, Slot* slot) noexcept nogil
    @cython.locals(code=int, n=Py_ssize_t)
    cdef bint skip(self) noexcept nogil
    @cython.locals(section=int, last=int, start=Py_ssize_t, content=Py_ssize_t)
    cdef bint message(self) noexcept nogil
    @cython.locals(code=int)
    cdef bint data(self) noexcept nogil

    @cython.locals(i=int)
    cdef bint commit(self, Py_ssize_t row) noexcept nogil
    @cython.locals(target="Column*")
    cdef Column* begin_text(self, int column, Py_ssize_t row) noexcept nogil
    cdef bint commit_text(self, int column, Py_ssize_t row, octets p, Py_ssize_t n,
                          Py_ssize_t left) noexcept nogil
    @cython.locals(target="Column*", small=int16_t, middle=int32_t)
    cdef void commit_number(self, int column, Py_ssize_t row, int64_t number) noexcept nogil
    @cython.locals(i=int, filled=int, field="FieldRow*", slot="Slot*", target="Column*", code=int, ok=bint)
    cdef bint commit_fields(self, int section, Py_ssize_t row) noexcept nogil
    @cython.locals(i=int, which=int, map="Map*", slot="Slot*")
    cdef bint commit_map(self, int section, Py_ssize_t row) noexcept nogil
    @cython.locals(room=Py_ssize_t, made="int32_t*")
    cdef bint put_key(self, Map* map) noexcept nogil
    @cython.locals(i=int, j=int, which=int, pick="Pick*", slot="Slot*", done=bint)
    cdef bint commit_picks(self) noexcept nogil
    @cython.locals(i=Py_ssize_t, code=int, single=uint32_t, real=float, wide=double)
    cdef bint put_value(self, Values* values, Slot* slot) noexcept nogil
    @cython.locals(i=int, n=Py_ssize_t, room=Py_ssize_t, made="void*")
    cdef bint commit_parts(self, Py_ssize_t row) noexcept nogil
    @cython.locals(i=int, kind=int, target="Column*", total=int64_t)
    cdef bint commit_body(self, Py_ssize_t row) noexcept nogil
    @cython.locals(i=int)
    cdef void close_row(self, Py_ssize_t row) noexcept nogil
    @cython.locals(row=int64_t, start=int64_t, end=int64_t, short_start=int32_t,
                   short_end=int32_t, place=Py_ssize_t)
    cdef int loop(self, octets data, Py_ssize_t data_size, octets offsets, int width,
                  octets valid, Py_ssize_t first) noexcept nogil
    @cython.locals(i=int)
    cdef void foresee(self, Py_ssize_t done, Py_ssize_t most) noexcept nogil
    @cython.locals(i=int)
    cdef bint null_picks(self) noexcept nogil

    @cython.locals(column="Column*", n=Py_ssize_t, bits=Py_ssize_t, i=int)
    cdef int allocate(self) except -1
    @cython.locals(data_at=octets, offsets_at=octets, valid_at=octets, status=int,
                   number=int64_t, i=Py_ssize_t)
    cpdef list scan(self, uintptr_t data, Py_ssize_t data_size, uintptr_t offsets,
                    Py_ssize_t offsets_size, int width, uintptr_t valid, Py_ssize_t valid_size,
                    Py_ssize_t first, Py_ssize_t rows)
    @cython.locals(column="Column*", n=Py_ssize_t, bits=Py_ssize_t, size=Py_ssize_t)
    cpdef column(self, int i)
    @cython.locals(map="Map*", count=Py_ssize_t, bits=Py_ssize_t, ends=Py_ssize_t)
    cpdef map_column(self, int i)
    cpdef pick_column(self, int i)
    @cython.locals(count=Py_ssize_t, bits=Py_ssize_t, ends=Py_ssize_t)
    cpdef part_column(self)
