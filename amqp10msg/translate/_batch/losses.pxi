# The losses of translations, as a column of lists.

# The losses, in the order of Python's `ENGINE_LOSSES`: to 1.0, and to 0-9-1.
cdef enum:
    LOSS_REDELIVERED
    LOSS_FACT
    LOSS_UNPLACED
    LOSS_NO_TEXT
    LOSS_ROUTES
    LOSS_HIDDEN_ROUTES
    LOSS_NESTED
    LOSS_HEADER
    LOSS_TYPE
    LOSS_APP_ID
    LOSS_CLUSTER_ID
    LOSS_LEFT_OUT
    LOSS_MOMENT
    LOSS_USER
    LOST_TYPE
    LOST_TYPE_OR_NAME
    LOST_CARRIED_FIELD
    LOST_INEXACT
    LOST_REDELIVERED
    LOST_DELIVERED_BEFORE
    LOST_HEADER_OF_3
    LOST_SUBJECT_OF_3
    LOST_LOW_PRIORITY
    LOST_IN_STREAM
    LOST_ENCODED_ANEW
    LOST_BY_NAME
    LOST_CLUSTER_ID
    LOST_MODE
    LOST_NO_PAYLOAD
    LOST_JOINED
    LOST_CARRIED_DELIVERY
    LOST_CARRIED_FOOTER
    LOST_FACT
    LOST_FIELD
    LOST_SECTIONS
    LOST_JOINED_FOR_GOOD
    LOST_BROKERS_OWN
    LOST_NUMBER
    LOST_UNSIGNED
    LOST_SYMBOL
    LOST_BINARY
    LOST_WHOLE_SECONDS
    LOST_SINCE_1970
    LOST_GROUP_ID
    LOST_QUEUE
    LOST_FOOTER
    LOST_DELIVERY
    LOST_SAVED_SECTION
    LOSSES

cdef struct LossRule:
    const char* action
    const char* reason
    bint recoverable

cdef LossRule[LOSSES] LOSS_RULES


cdef struct Losses:
    Texts path, action, before, after, reason
    Out recoverable, ends
    Py_ssize_t count

# The sizes at the start of a row, to undo an odd row.
cdef struct Mark:
    Py_ssize_t count, path, action, before, after, reason


cdef int begin_losses(Losses* to) except -1:
    cdef int32_t none = 0
    begin_texts(&to.path)
    begin_texts(&to.action)
    begin_texts(&to.before)
    begin_texts(&to.after)
    begin_texts(&to.reason)
    to.recoverable.size = to.ends.size = to.count = 0
    return put(&to.ends, &none, 4)


cdef void free_losses(Losses* to) noexcept:
    free_texts(&to.path)
    free_texts(&to.action)
    free_texts(&to.before)
    free_texts(&to.after)
    free_texts(&to.reason)
    free_out(&to.recoverable)
    free_out(&to.ends)


cdef Mark mark_of(Losses* to) noexcept:
    cdef Mark made
    made.count = to.count
    made.path = to.path.data.size
    made.action = to.action.data.size
    made.before = to.before.data.size
    made.after = to.after.data.size
    made.reason = to.reason.data.size
    return made


cdef void cut_losses(Losses* to, Mark* mark) noexcept:
    to.count = mark.count
    cut_texts(&to.path, mark.count, mark.path)
    cut_texts(&to.action, mark.count, mark.action)
    cut_texts(&to.before, mark.count, mark.before)
    cut_texts(&to.after, mark.count, mark.after)
    cut_texts(&to.reason, mark.count, mark.reason)
    to.recoverable.size = mark.count


cdef bint are_recoverable(Losses* to, Py_ssize_t first) noexcept:
    """Whether the reverse translation restores all losses from this index on."""
    cdef Py_ssize_t i
    for i in range(first, to.count):
        if not to.recoverable.at[i]:
            return False
    return True


cdef int end_losses(Losses* to) except -1:
    """End the list of losses of a row."""
    cdef int32_t end = <int32_t> to.count
    return put(&to.ends, &end, 4)


cdef int end_loss(Losses* to, int loss, bint has_after) except -1:
    """End a loss after its path, its original value and its translated value were written."""
    return put_loss(to, &LOSS_RULES[loss], True, has_after)


cdef int tell_texts(
    Losses* to, const char* path, const char* before, const char* after, int loss
) except -1:
    """Add a loss whose values are texts; NULL for a missing value."""
    say(&to.path.data, path)
    if before != NULL:
        say(&to.before.data, before)
    if after != NULL:
        say(&to.after.data, after)
    return put_loss(to, &LOSS_RULES[loss], before != NULL, after != NULL)


cdef int put_loss(Losses* to, LossRule* rule, bint has_before, bint has_after) except -1:
    end_text(&to.path)
    end_text(&to.before)
    octet(&to.before.there, has_before)
    end_text(&to.after)
    octet(&to.after.there, has_after)
    put_text(&to.action, rule.action, <Py_ssize_t> strlen(rule.action))
    put_text(&to.reason, rule.reason, <Py_ssize_t> strlen(rule.reason))
    octet(&to.recoverable, rule.recoverable)
    to.count += 1
    return 0


cdef tuple losses_of(Losses* to):
    """Return the offsets of the lists, and the buffers of the loss columns."""
    return (
        taken(&to.ends),
        buffers_of(&to.path),
        buffers_of(&to.action),
        buffers_of(&to.before),
        buffers_of(&to.after),
        buffers_of(&to.reason),
        bits_of(&to.recoverable),
    )


# Values as JSON, as `json.dumps` writes them.


cdef int json_octet(Out* o, int code) except -1:
    """Write a byte of a quoted JSON text, escaped if necessary."""
    if code == 34 or code == 92:
        octet(o, 92)
        return octet(o, code)
    if code >= 32:
        return octet(o, code)
    octet(o, 92)
    if code == 10:
        return octet(o, 110)
    if code == 13:
        return octet(o, 114)
    if code == 9:
        return octet(o, 116)
    if code == 8:
        return octet(o, 98)
    if code == 12:
        return octet(o, 102)
    say(o, b"u00")
    return put_hex(o, code)


cdef int json_text(Out* o, cursor p, Py_ssize_t n) except -1:
    cdef Py_ssize_t i
    octet(o, 34)
    for i in range(n):
        json_octet(o, p[i])
    return octet(o, 34)


cdef int json_bytes(Out* o, cursor p, Py_ssize_t n) except -1:
    """Write the `repr` of bytes."""
    cdef Py_ssize_t i
    cdef bint has_single = n > 0 and memchr(p, 39, <size_t> n) != NULL
    cdef bint has_double = n > 0 and memchr(p, 34, <size_t> n) != NULL
    cdef int mark = 34 if has_single and not has_double else 39
    cdef int code
    say(o, b'"b')
    json_octet(o, mark)
    for i in range(n):
        code = p[i]
        if code == mark or code == 92:
            json_octet(o, 92)
            json_octet(o, code)
        elif code == 9 or code == 10 or code == 13:
            json_octet(o, 92)
            octet(o, 116 if code == 9 else 110 if code == 10 else 114)
        elif code < 32 or code > 126:
            json_octet(o, 92)
            octet(o, 120)
            put_hex(o, code)
        else:
            json_octet(o, code)
    json_octet(o, mark)
    return octet(o, 34)


cdef int json_value(Out* o, Value* v) except -1:
    """Write a value of a loss as JSON."""
    if v.kind == STRING or v.kind == SYMBOL:
        return json_text(o, v.at, v.n)
    if v.kind == BINARY:
        return json_bytes(o, v.at, v.n)
    if v.kind == UUID:
        say(o, b"\"UUID('")
        put_uuid(o, v.at)
        return say(o, b"')\"")
    if v.kind == ULONG:
        return digits(o, <uint64_t> v.number)
    if v.kind == BOOLEAN:
        return say(o, b"true" if v.number else b"false")
    return signed_digits(o, v.number)


cdef bint is_plain_name(cursor p, Py_ssize_t n) noexcept nogil:
    """Whether the `repr` of a name is the unescaped name in single quotes."""
    cdef Py_ssize_t i
    for i in range(n):
        if not 32 <= p[i] < 127 or p[i] == 39 or p[i] == 92:
            return False
    return True
