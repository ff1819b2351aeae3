# The steps of a template (`amqp10msg.wire.kernel.templates`), with a column for each value.

cdef enum:
    MAX_STEPS = 4096

# What a step does after its bytes.
cpdef enum:
    COPY_STEP
    OPEN_STEP
    LIST_STEP
    MAP_STEP
    FIELDS_STEP
    FIELD_STEP
    ENTRY_STEP
    DATA_STEP
    BODY_STEP

# As what a cell is written: how wide a column is follows from it.
cpdef enum:
    BOOLEAN_WAY  # BOOL
    WHOLE_WAY    # INT64, as an integer with a sign or a timestamp, of type `code`
    ULONG_WAY    # INT64, its bits
    DOUBLE_WAY   # INT64, the bits of a double
    FLOAT_WAY    # likewise, as a float
    TEXT_WAY     # TEXT, in the encoding `code`

cdef struct TemplateStep:
    int does, way, code, rule
    Py_ssize_t index, stop
    int64_t default_value  # -1 for none
    cursor octets
    Py_ssize_t size
    Cells cells


cdef int put_cell(TemplateStep* step, Out* o, Py_ssize_t row) noexcept nogil:
    """Write a cell that is there; the room for a number is there, too."""
    cdef Span text
    cdef uint64_t word
    cdef double real
    if step.way == TEXT_WAY:
        if not span_at(&step.cells, row, &text):
            return INVALID
        return put_sized(o, text.at, text.n, text.end, step.code, step.rule)
    if step.way == BOOLEAN_WAY:
        write_boolean(o, bool_at(&step.cells, row))
        return GOOD
    word = <uint64_t> int64_at(&step.cells, row)
    if step.way == WHOLE_WAY:
        return put_whole(o, &CODES[step.code], <int64_t> word)
    if step.way == ULONG_WAY:
        write_ulong(o, word)
    elif step.way == DOUBLE_WAY:
        write_coded(o, DOUBLE_CODE, word, 8)
    else:
        memcpy(&real, &word, 8)
        return put_float(o, real)
    return GOOD


cdef inline bint is_default(TemplateStep* step, Py_ssize_t row) noexcept nogil:
    """Whether a field that is there has its default, and so is left out."""
    if step.default_value < 0 or step.way == TEXT_WAY:
        return False
    if step.way == BOOLEAN_WAY:
        return bool_at(&step.cells, row) == step.default_value
    return int64_at(&step.cells, row) == step.default_value


cdef int put_steps(
    TemplateStep* steps, Py_ssize_t count, Out* o, Py_ssize_t row
) noexcept nogil:
    """Write a message."""
    cdef Py_ssize_t i, mark = 0, written = 0
    cdef TemplateStep* step
    cdef int done
    for i in range(count):
        step = &steps[i]
        if not has_room(o, step.size + MAX_FIELDS + 16):
            return FULL
        if step.does == FIELDS_STEP:
            while written < step.index:
                write_byte(o, NULL_CODE)
                written += 1
            written = step.stop
        if step.size:
            memcpy(o.at + o.size, step.octets, step.size)
            o.size += step.size
        if step.does == OPEN_STEP:
            mark = open_compound(o)
            written = 0
        elif step.does == LIST_STEP:
            if written == 0:
                o.size = mark
                write_byte(o, LIST0)
            elif close_compound(o, mark, LIST8, written) == FULL:
                return FULL
        elif step.does == MAP_STEP:
            if close_compound(o, mark, MAP8, step.index) == FULL:
                return FULL
        elif step.does >= FIELD_STEP:
            if not is_there(&step.cells, row):
                if step.does == ENTRY_STEP:
                    write_byte(o, NULL_CODE)
                elif step.does == DATA_STEP:
                    return ODD
                continue
            if step.does == FIELD_STEP:
                if is_default(step, row):
                    continue
                while written < step.index:
                    write_byte(o, NULL_CODE)
                    written += 1
                written += 1
            elif step.does == BODY_STEP:
                write_descriptor(o, <int> step.index)
            done = put_cell(step, o, row)
            if done != GOOD:
                return done
    return GOOD


cdef class Filler(Rows):
    """Writes a message for each row of the columns of a template.

    Args:
        rows: how many there are.
        steps: for each what it does, its bytes, its number and the one after it, and for a value
            its default or None, as what its cells are written, the type's format code, and the
            column, as `fill_cells` takes it. Whoever calls keeps the buffers alive.

    Raises:
        ValueError: a buffer is shorter than its rows, or there are too many steps.
    """

    cdef TemplateStep* steps
    cdef Py_ssize_t count
    cdef list kept

    def __cinit__(self):
        self.steps = NULL
        self.count = 0

    def __init__(self, Py_ssize_t rows, list steps):
        cdef TemplateStep* step
        cdef Py_ssize_t i
        cdef bytes octets
        cdef bint is_open = False
        if self.steps != NULL or len(steps) > MAX_STEPS:
            raise ValueError(f"a template of this kernel has at most {MAX_STEPS} steps")
        self.steps = <TemplateStep*> PyMem_Calloc(len(steps) or 1, sizeof(TemplateStep))
        if self.steps == NULL:
            raise MemoryError
        self.count = len(steps)
        self.rows = rows
        self.kept = []
        for i in range(self.count):
            does, octets, index, stop, default, way, code, given = steps[i]
            self.kept.append(octets)
            step = &self.steps[i]
            step.does = does
            step.octets = <cursor> <char*> octets
            step.size = len(octets)
            step.index = index
            step.stop = stop
            step.default_value = -1 if default is None else default
            step.way = way
            if not 0 <= code < 256 or CODES[<int> code].width == NO_CODE:
                raise ValueError(f"{code} is not a format code")
            if does in (OPEN_STEP, LIST_STEP, MAP_STEP):
                if is_open == (does == OPEN_STEP):
                    raise ValueError("a list or a map does not begin and end")
                is_open = not is_open
            if does in (FIELDS_STEP, FIELD_STEP) and not 0 <= index < stop <= MAX_FIELDS:
                raise ValueError("there is no such field")
            width = TEXT if way == TEXT_WAY else BOOL if way == BOOLEAN_WAY else INT64
            if given is not None and given[0] != width:
                raise ValueError("a column is not as wide as what is written of it")
            step.code = code
            step.rule = CODES[<int> code].rule
            fill_cells(&step.cells, given, rows)

    def __dealloc__(self):
        PyMem_Free(self.steps)

    cdef int put(self, Out* o, Py_ssize_t row) noexcept nogil:
        return put_steps(self.steps, self.count, o, row)
