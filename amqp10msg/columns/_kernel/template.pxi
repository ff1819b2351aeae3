# Execute the steps of a template (`amqp10msg.wire.kernel.templates`), with a column for each value.

cdef enum:
    MAX_STEPS = 4096

# What a step of a template does after its bytes were copied.
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

# The modes of writing a cell: each is for one kind of column, and writes one type of AMQP value.
cpdef enum:
    BOOLEAN_MODE  # BOOL column: a boolean
    WHOLE_MODE    # INT64 column: a signed integer or a timestamp with the format code `code`
    ULONG_MODE    # INT64 column with the bits of a ulong: a ulong
    DOUBLE_MODE   # INT64 column with the bits of a double: a double
    FLOAT_MODE    # INT64 column with the bits of a double: a float
    TEXT_MODE     # TEXT column: a string, symbol or binary with the format code `code`

cdef struct TemplateStep:
    int action, mode, code, rule
    Py_ssize_t index, stop
    int64_t default_value  # -1 for none
    cursor octets
    Py_ssize_t size
    Cells cells


cdef int put_cell(TemplateStep* step, Out* o, Py_ssize_t row) noexcept nogil:
    """Write a cell that is not null. The caller has checked the room for a number."""
    cdef Span text
    cdef uint64_t word
    cdef double real
    if step.mode == TEXT_MODE:
        if not span_at(&step.cells, row, &text):
            return INVALID
        return put_sized(o, text.at, text.n, text.end, step.code, step.rule)
    if step.mode == BOOLEAN_MODE:
        write_boolean(o, bool_at(&step.cells, row))
        return OK
    word = <uint64_t> int64_at(&step.cells, row)
    if step.mode == WHOLE_MODE:
        return put_whole(o, &CODES[step.code], <int64_t> word)
    if step.mode == ULONG_MODE:
        write_ulong(o, word)
    elif step.mode == DOUBLE_MODE:
        write_coded(o, DOUBLE_CODE, word, 8)
    else:
        memcpy(&real, &word, 8)
        return put_float(o, real)
    return OK


cdef inline bint is_default(TemplateStep* step, Py_ssize_t row) noexcept nogil:
    """Return whether a cell that is not null equals the default of its field, which is omitted."""
    if step.default_value < 0 or step.mode == TEXT_MODE:
        return False
    if step.mode == BOOLEAN_MODE:
        return bool_at(&step.cells, row) == step.default_value
    return int64_at(&step.cells, row) == step.default_value


cdef int put_steps(
    TemplateStep* steps, Py_ssize_t count, Out* o, Py_ssize_t row
) noexcept nogil:
    """Write a message by executing the steps of a template."""
    cdef Py_ssize_t i, mark = 0, written = 0
    cdef TemplateStep* step
    cdef int done
    for i in range(count):
        step = &steps[i]
        if not has_room(o, step.size + MAX_FIELDS + 16):
            return FULL
        if step.action == FIELDS_STEP:
            while written < step.index:
                write_byte(o, NULL_CODE)
                written += 1
            written = step.stop
        if step.size:
            memcpy(o.at + o.size, step.octets, step.size)
            o.size += step.size
        if step.action == OPEN_STEP:
            mark = open_compound(o)
            written = 0
        elif step.action == LIST_STEP:
            if written == 0:
                o.size = mark
                write_byte(o, LIST0)
            elif close_compound(o, mark, LIST8, written) == FULL:
                return FULL
        elif step.action == MAP_STEP:
            if close_compound(o, mark, MAP8, step.index) == FULL:
                return FULL
        elif step.action >= FIELD_STEP:
            if not has_value(&step.cells, row):
                if step.action == ENTRY_STEP:
                    write_byte(o, NULL_CODE)
                elif step.action == DATA_STEP:
                    return UNSUPPORTED
                continue
            if step.action == FIELD_STEP:
                if is_default(step, row):
                    continue
                while written < step.index:
                    write_byte(o, NULL_CODE)
                    written += 1
                written += 1
            elif step.action == BODY_STEP:
                write_descriptor(o, <int> step.index)
            done = put_cell(step, o, row)
            if done != OK:
                return done
    return OK


cdef class Filler(Rows):
    """Writes a message for each row of the columns of a template.

    Args:
        rows: the number of rows.
        steps: for each step: its action (such as FIELD_STEP), its bytes, its `index` and `stop`;
            for a value also its default or None, how to write its cells (such as TEXT_MODE), the
            format code of its type, and its column, as for `fill_cells`. The caller must keep the
            buffers alive.

    Raises:
        ValueError: a buffer is too small for its rows, or a step is invalid.
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
            action, octets, index, stop, default, mode, code, column = steps[i]
            self.kept.append(octets)
            step = &self.steps[i]
            step.action = action
            step.octets = <cursor> <char*> octets
            step.size = len(octets)
            step.index = index
            step.stop = stop
            step.default_value = -1 if default is None else default
            step.mode = mode
            if not 0 <= code < 256 or CODES[<int> code].width == NO_CODE:
                raise ValueError(f"{code} is not a format code")
            if action in (OPEN_STEP, LIST_STEP, MAP_STEP):
                if is_open == (action == OPEN_STEP):
                    raise ValueError("OPEN_STEP must alternate with LIST_STEP or MAP_STEP")
                is_open = not is_open
            if action in (FIELDS_STEP, FIELD_STEP) and not 0 <= index < stop <= MAX_FIELDS:
                raise ValueError(f"fields {index} to {stop - 1} are not in 0 to {MAX_FIELDS - 1}")
            width = TEXT if mode == TEXT_MODE else BOOL if mode == BOOLEAN_MODE else INT64
            if column is not None and column[0] != width:
                raise ValueError("the cells of a column have the wrong width for their step")
            step.code = code
            step.rule = CODES[<int> code].rule
            fill_cells(&step.cells, column, rows)

    def __dealloc__(self):
        PyMem_Free(self.steps)

    cdef int put(self, Out* o, Py_ssize_t row) noexcept nogil:
        return put_steps(self.steps, self.count, o, row)
