# Part of `ToBasic`: the body, and the sections without a counterpart in 0-9-1.


cdef int read_body(ToBasic self, cursor p, cursor stop, Span* body) except -1:
    """Read the body and the footer; set `body` to the payload, or return UNSUPPORTED.

    The payload is the joined content of data sections, or the encoded sections of any other body.
    """
    cdef Made* made = &self.made
    cdef cursor first = p
    cdef int code = p[2] if stop - p > 2 else 0
    body.at = p
    body.n = 0
    made.is_usual = True
    made.is_marked = code == AMQP_SEQUENCE_CODE or code == AMQP_VALUE_CODE
    self.data_heads.size = 0
    while is_section(p, stop, code) and (made.is_marked or code == DATA_CODE):
        made.parts += 1
        if not made.is_marked:
            if read_data(self, &p, stop, body) == UNSUPPORTED:
                return UNSUPPORTED
        elif not skip_body(&p, stop):
            made.is_usual = False
            p += 3
            if skip_any(&p, stop) == UNSUPPORTED:
                return UNSUPPORTED
        if made.parts == MOST_PARTS or (made.parts > 1 and code == AMQP_VALUE_CODE):
            return UNSUPPORTED
    self.sections.at, self.sections.n = first, p - first
    if made.is_marked:
        body.at = first
        body.n = p - first
        self.set_type(ENCODED_SECTIONS_TYPE_PROPERTY)
        if not made.is_usual and (
            self.message_size > MAX_UNTRIED_MESSAGE_SIZE
            or not self.plain.is_body(bytes_at(first, body.n))
        ):
            return UNSUPPORTED
        if self.conversion == CONVERTED:  # RabbitMQ 4 delivers the footer in such a payload
            body.n = stop - first
    if p == stop:
        return OK if self.message_size else UNSUPPORTED
    if not made.parts or skip_section(&p, stop, FOOTER_CODE, &made.footer) == UNSUPPORTED:
        return UNSUPPORTED
    return OK if p == stop else UNSUPPORTED


cdef int read_data(ToBasic self, cursor* place, cursor stop, Span* body) except -1:
    """Read a data section, and append its content to the payload."""
    cdef Made* made = &self.made
    cdef cursor p = place[0] + 3
    cdef Py_ssize_t n
    cdef int width
    if p >= stop or p[0] & 0xEF != 0xA0:
        return UNSUPPORTED
    width = 4 if p[0] & 0x10 else 1
    if stop - p <= width:
        return UNSUPPORTED
    n = <Py_ssize_t> unsigned_at(p + 1, width)
    p += 1 + width
    if n > stop - p:
        return UNSUPPORTED
    made.keeps_data_heads = made.parts > 1 or (width == 4 and n < 256)
    cbor_bytes(&self.data_heads, place[0], p - place[0])
    if made.parts == 1:
        body.at = p
        body.n = n
    else:
        if made.parts == 2:
            self.joined.size = 0
            put(&self.joined, body.at, body.n)
        put(&self.joined, p, n)
        body.at = self.joined.at
        body.n = self.joined.size
    place[0] = p + n
    return OK


cdef int report_body_loss(ToBasic self) except -1:
    """Report as a loss that the body is missing or has several data sections."""
    cdef Losses* losses = &self.losses
    cdef bint comes_back = self.conversion == LOSSLESS and self.residual.at == NULL
    if self.made.parts == 1 or self.made.is_marked:
        return 0
    if self.made.parts == 0:
        return add_text_loss(losses, b"body", NULL, b"\"b''\"", LOST_NO_PAYLOAD)
    put_cstring(&losses.path.data, b"body")
    put_digits(&losses.before.data, <uint64_t> self.made.parts)
    put_byte(&losses.after.data, 49)
    return end_loss(losses, LOST_JOINED if comes_back else LOST_JOINED_FOR_GOOD, True)


cdef int report_lost_section(ToBasic self, Span* section, const char* path, int loss) except -1:
    """Report the loss of delivery-annotations or a footer, if present.

    Args:
        section: the encoded section.
        path: the name of the section.
        loss: the index of the kind of loss; -1 to only check the section.

    Returns:
        UNSUPPORTED if the section is invalid or too large, otherwise OK.
    """
    cdef Losses* losses = &self.losses
    cdef bytes said = b""
    cdef Py_ssize_t count, i
    cdef Pair* pair
    cdef bint is_usual
    if section.at == NULL:
        return OK
    is_usual = self.read_map(section, SYMBOL) == OK
    count = self.pair_count
    for i in range(count if is_usual else 0):
        pair = &self.pairs[i]
        is_usual = is_usual and pair.value.kind != ENCODED and (
            self.conversion != CONVERTED or begins(pair.key.at, pair.key.n, b"x-")
        )
    if not is_usual or (not self.losses.is_counted and loss >= 0):
        if self.message_size > MAX_UNTRIED_MESSAGE_SIZE and not is_usual:
            return UNSUPPORTED
        octets = bytes_at(section.at, section.n)
        found = self.plain.lost_section_json(octets)
        if found is None:
            return UNSUPPORTED
        said, count = found
    if loss < 0 or (self.conversion != LOSSLESS and count == 0):
        return OK
    put_cstring(&losses.path.data, path)
    put_bytes(&losses.before.data, said)
    end_loss(losses, loss, False)
    return OK
