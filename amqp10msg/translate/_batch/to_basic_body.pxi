# Part of `ToBasic`: the body, and the sections without a counterpart in 0-9-1.


cdef int read_body(ToBasic self, cursor p, cursor stop, Span* body) except -1:
    """Read the body and the footer; set `body` to the payload. Return ODD if unsupported.

    The payload is the joined data, or all encoded sections of another body.
    """
    cdef Made* made = &self.made
    cdef cursor first = p
    cdef int code = p[2] if stop - p > 2 else 0
    body.at = p
    body.n = 0
    made.is_usual = True
    made.is_marked = code == AMQP_SEQUENCE_CODE or code == AMQP_VALUE_CODE
    self.shape.size = 0
    while is_section(p, stop, code) and (made.is_marked or code == DATA_CODE):
        made.parts += 1
        if not made.is_marked:
            if read_data(self, &p, stop, body) == ODD:
                return ODD
        elif not skip_body(&p, stop):
            made.is_usual = False
            p += 3
            if skip_any(&p, stop) == ODD:
                return ODD
        if made.parts == MOST_PARTS or (made.parts > 1 and code == AMQP_VALUE_CODE):
            return ODD
    self.sections.at, self.sections.n = first, p - first
    if made.is_marked:
        body.at = first
        body.n = p - first
        self.set_type(ENCODED_SECTIONS_TYPE_PROPERTY)
        if not made.is_usual and (
            self.size > CERTAIN
            or not self.plain.is_body(bytes_at(first, body.n))
        ):
            return ODD
        if self.way == CONVERTED:  # RabbitMQ 4 delivers the footer as a part of such a payload
            body.n = stop - first
    if p == stop:
        return GOOD if self.size else ODD
    if not made.parts or skip_section(&p, stop, FOOTER_CODE, &made.footer) == ODD:
        return ODD
    return GOOD if p == stop else ODD


cdef int read_data(ToBasic self, cursor* place, cursor stop, Span* body) except -1:
    """Read a data section, and append its content to the payload."""
    cdef Made* made = &self.made
    cdef cursor p = place[0] + 3
    cdef Py_ssize_t n
    cdef int width
    if p >= stop or p[0] & 0xEF != 0xA0:
        return ODD
    width = 4 if p[0] & 0x10 else 1
    if stop - p <= width:
        return ODD
    n = <Py_ssize_t> unsigned_at(p + 1, width)
    p += 1 + width
    if n > stop - p:
        return ODD
    made.keeps_shape = made.parts > 1 or (width == 4 and n < 256)
    cbor_bytes(&self.shape, place[0], p - place[0])
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
    return GOOD


cdef int report_parts(ToBasic self) except -1:
    """Report the loss if the body is missing or has several data sections."""
    cdef Losses* losses = &self.losses
    cdef bint comes_back = self.way == LOSSLESS and self.saved.at == NULL
    if self.made.parts == 1 or self.made.is_marked:
        return 0
    if self.made.parts == 0:
        return add_text_loss(losses, b"body", NULL, b"\"b''\"", LOST_NO_PAYLOAD)
    put_cstring(&losses.path.data, b"body")
    put_digits(&losses.before.data, <uint64_t> self.made.parts)
    put_byte(&losses.after.data, 49)
    return end_loss(losses, LOST_JOINED if comes_back else LOST_JOINED_FOR_GOOD, True)


cdef int report_map(ToBasic self, Span* section, const char* path, int loss) except -1:
    """Report the loss of delivery-annotations or a footer, if present. Return ODD if invalid.

    Args:
        section: the encoded section.
        path: the name of the section.
        loss: the index of the kind of loss; -1 to only check the section.
    """
    cdef Losses* losses = &self.losses
    cdef bytes said = b""
    cdef Py_ssize_t count, i
    cdef Pair* pair
    cdef bint is_usual
    if section.at == NULL:
        return GOOD
    is_usual = self.read_map(section, SYMBOL) == GOOD
    count = self.pair_count
    for i in range(count if is_usual else 0):
        pair = &self.pairs[i]
        is_usual = is_usual and pair.value.kind != ENCODED and (
            self.way != CONVERTED or begins(pair.key.at, pair.key.n, b"x-")
        )
    if not is_usual or (not self.losses.is_counted and loss >= 0):
        if self.size > CERTAIN and not is_usual:
            return ODD
        octets = bytes_at(section.at, section.n)
        found = self.plain.lost_section_json(octets)
        if found is None:
            return ODD
        said, count = found
    if loss < 0 or (self.way != LOSSLESS and count == 0):
        return GOOD
    put_cstring(&losses.path.data, path)
    put_bytes(&losses.before.data, said)
    end_loss(losses, loss, False)
    return GOOD
