# The losses of translations, as an output column: each cell is the list of a message's losses.

# The kinds of loss to 1.0 (LOSS_…) and to 0-9-1 (LOST_…), in the order of `losses.ENGINE_LOSSES`.
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
    bint is_counted  # only count the losses and which are recoverable, without their texts

# The sizes of the loss columns at the start of a row, to undo an unsupported row.
cdef struct Mark:
    Py_ssize_t count, path, action, before, after, reason


cdef int reset_losses(Losses* to) except -1:
    """Remove all losses."""
    cdef int32_t none = 0
    reset_texts(&to.path)
    reset_texts(&to.action)
    reset_texts(&to.before)
    reset_texts(&to.after)
    reset_texts(&to.reason)
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
    """Return the current sizes of the loss columns."""
    cdef Mark made
    made.count = to.count
    made.path = to.path.data.size
    made.action = to.action.data.size
    made.before = to.before.data.size
    made.after = to.after.data.size
    made.reason = to.reason.data.size
    return made


cdef void truncate_losses(Losses* to, Mark* mark) noexcept:
    """Remove the losses that were added since a mark."""
    to.count = mark.count
    to.recoverable.size = mark.count
    if to.is_counted:
        return
    truncate_texts(&to.path, mark.count, mark.path)
    truncate_texts(&to.action, mark.count, mark.action)
    truncate_texts(&to.before, mark.count, mark.before)
    truncate_texts(&to.after, mark.count, mark.after)
    truncate_texts(&to.reason, mark.count, mark.reason)


cdef bint are_recoverable(Losses* to, Py_ssize_t first) noexcept:
    """Whether all losses from index `first` on are recoverable."""
    cdef Py_ssize_t i
    for i in range(first, to.count):
        if not to.recoverable.at[i]:
            return False
    return True


cdef int end_losses(Losses* to) except -1:
    """End the list of losses of the current row."""
    cdef int32_t end = <int32_t> to.count
    return put(&to.ends, &end, 4)


cdef int end_loss(Losses* to, int loss, bint has_after) except -1:
    """Complete a loss of the kind `loss`, whose path and values were written."""
    return put_loss(to, &LOSS_RULES[loss], True, has_after)


cdef int add_text_loss(
    Losses* to, const char* path, const char* before, const char* after, int loss
) except -1:
    """Add a loss, given its values as JSON; NULL for a missing value."""
    put_cstring(&to.path.data, path)
    if before != NULL:
        put_cstring(&to.before.data, before)
    if after != NULL:
        put_cstring(&to.after.data, after)
    return put_loss(to, &LOSS_RULES[loss], before != NULL, after != NULL)


cdef int put_loss(Losses* to, LossRule* rule, bint has_before, bint has_after) except -1:
    """Complete a loss whose path and values were written, with the attributes of `rule`."""
    to.count += 1
    put_byte(&to.recoverable, rule.recoverable)
    if to.is_counted:
        return 0
    end_cell(&to.path)
    end_cell(&to.before)
    put_byte(&to.before.there, has_before)
    end_cell(&to.after)
    put_byte(&to.after.there, has_after)
    put_cell(&to.action, rule.action, <Py_ssize_t> strlen(rule.action))
    return put_cell(&to.reason, rule.reason, <Py_ssize_t> strlen(rule.reason))


cdef tuple losses_of(Losses* to):
    """Return the offsets of the lists, and the buffers of the loss columns."""
    return (
        copy_bytes(&to.ends),
        buffers_of(&to.path),
        buffers_of(&to.action),
        buffers_of(&to.before),
        buffers_of(&to.after),
        buffers_of(&to.reason),
        bitmap_of(&to.recoverable),
    )


# Writing values as JSON, like `json.dumps`.


cdef int json_octet(Out* o, int code) except -1:
    """Write a byte in a JSON string, escaped if necessary."""
    if code == 34 or code == 92:
        put_byte(o, 92)
        return put_byte(o, code)
    if code >= 32:
        return put_byte(o, code)
    put_byte(o, 92)
    if code == 10:
        return put_byte(o, 110)
    if code == 13:
        return put_byte(o, 114)
    if code == 9:
        return put_byte(o, 116)
    if code == 8:
        return put_byte(o, 98)
    if code == 12:
        return put_byte(o, 102)
    put_cstring(o, b"u00")
    return put_hex(o, code)


cdef int json_text(Out* o, cursor p, Py_ssize_t n) except -1:
    """Write UTF-8 text as a JSON string."""
    cdef Py_ssize_t i
    put_byte(o, 34)
    for i in range(n):
        json_octet(o, p[i])
    return put_byte(o, 34)


cdef int json_bytes(Out* o, cursor p, Py_ssize_t n) except -1:
    """Write the `repr` of bytes as a JSON string."""
    cdef Py_ssize_t i
    cdef bint has_single = n > 0 and memchr(p, 39, <size_t> n) != NULL
    cdef bint has_double = n > 0 and memchr(p, 34, <size_t> n) != NULL
    cdef int mark = 34 if has_single and not has_double else 39
    cdef int code
    put_cstring(o, b'"b')
    json_octet(o, mark)
    for i in range(n):
        code = p[i]
        if code == mark or code == 92:
            json_octet(o, 92)
            json_octet(o, code)
        elif code == 9 or code == 10 or code == 13:
            json_octet(o, 92)
            put_byte(o, 116 if code == 9 else 110 if code == 10 else 114)
        elif code < 32 or code > 126:
            json_octet(o, 92)
            put_byte(o, 120)
            put_hex(o, code)
        else:
            json_octet(o, code)
    json_octet(o, mark)
    return put_byte(o, 34)


cdef int json_value(Out* o, Value* v) except -1:
    """Write a 1.0 value as JSON."""
    if v.kind == STRING or v.kind == SYMBOL:
        return json_text(o, v.at, v.n)
    if v.kind == BINARY:
        return json_bytes(o, v.at, v.n)
    if v.kind == UUID:
        put_cstring(o, b"\"UUID('")
        put_uuid(o, v.at)
        return put_cstring(o, b"')\"")
    if v.kind == ULONG:
        return put_digits(o, <uint64_t> v.number)
    if v.kind == BOOLEAN:
        return put_cstring(o, b"true" if v.number else b"false")
    return put_signed_digits(o, v.number)


cdef bint is_plain_name(cursor p, Py_ssize_t n) noexcept nogil:
    """Whether the `repr` of a name is the name in single quotes, without escapes."""
    cdef Py_ssize_t i
    for i in range(n):
        if not 32 <= p[i] < 127 or p[i] == 39 or p[i] == 92:
            return False
    return True
