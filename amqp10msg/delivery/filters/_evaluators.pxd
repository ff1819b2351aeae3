cimport cython

cpdef kind_of(value)
cdef types_of(literal)
cdef bint is_comparable(value) except -1
cpdef normalized(value, bint octets)
cpdef bint is_exact(literal) except -1
cdef tuple _promoted(left, right)
cpdef compare(sign, left, right, bint octets, bint promotes=*)
cdef _rounded(value)
cdef _encoded(value)
cpdef same(reference, value)
cpdef arithmetic(sign, left, right, bint exact, bint finite=*)
cdef _calculated(sign, left, right, bint exact)
cpdef number(value)

cdef type _Message

cdef class Evaluator:
    cdef object value(self, message, now)

cdef class Constant(Evaluator):
    cdef object constant

cdef class Entry(Evaluator):
    cdef object section, key

cdef class HeaderField(Evaluator):
    cdef object name, default

cdef class PropertyField(Evaluator):
    cdef object name, default
    cdef bint is_time

cdef class Changed(Evaluator):
    cdef Evaluator operand
    cdef object change

cdef class Equal(Evaluator):
    cdef readonly object key, literal
    cdef readonly bint octets
    cdef readonly frozenset like

cdef class AllEqual(Evaluator):
    cdef bint octets
    cdef list rows

    @cython.locals(like=frozenset)
    cdef object value(self, message, now)

cdef class WithLiteral(Evaluator):
    cdef str sign
    cdef Evaluator operand
    cdef object literal, test
    cdef bint octets
    cdef frozenset like

cdef class Comparison(Evaluator):
    cdef str sign
    cdef Evaluator left, right
    cdef bint octets

cdef class InList(Evaluator):
    cdef Evaluator operand
    cdef frozenset plain
    cdef list complex_items, items
    cdef set kinds
    cdef bint negated, octets

    @cython.locals(items_to_compare=list, item=Evaluator)
    cdef object value(self, message, now)

cdef class LikeText(Evaluator):
    cdef Evaluator operand
    cdef object match, negated
    cdef bint octets
    cdef str errors

cdef class Null(Evaluator):
    cdef Evaluator operand
    cdef bint negated

cdef class Joined(Evaluator):
    cdef list parts
    cdef object decisive, neutral

    @cython.locals(part=Evaluator)
    cdef object value(self, message, now)

cdef class Negated(Evaluator):
    cdef Evaluator operand
    cdef object negated

cdef class Signed(Evaluator):
    cdef Evaluator operand
    cdef bint minus

cdef class Calculation(Evaluator):
    cdef Evaluator first
    cdef list operations
    cdef bint exact, concatenate, finite

    @cython.locals(operand=Evaluator, sign=str)
    cdef object value(self, message, now)

cdef class Work:
    cdef public long long steps
    cdef public object longest

cdef class Bounded(Evaluator):
    cdef Evaluator operand
    cdef long long weight
    cdef Work work

cdef class Time(Evaluator):
    pass

cdef class TextFunction(Evaluator):
    cdef object function
    cdef Evaluator text
    cdef list counts

    @cython.locals(count=Evaluator)
    cdef object value(self, message, now)

cpdef object value_of(Evaluator evaluator, message, now)
@cython.locals(evaluator=Evaluator)
cpdef bint matches(self, message, now=*, local=*) except -1


cdef class ShiftAnd:
    cdef readonly Py_ssize_t size, words
    cdef int width
    cdef unsigned long long last
    cdef unsigned long long[::1] rows
    cdef long[::1] plain
    cdef dict non_ascii_rows

    @cython.locals(
        words=Py_ssize_t,
        rows="unsigned long long[::1]",
        plain="long[::1]",
        last="unsigned long long",
        state="unsigned long long",
        index=Py_ssize_t,
        char=Py_UCS4,
        row=Py_ssize_t,
    )
    cpdef Py_ssize_t find(self, str text, Py_ssize_t start, Py_ssize_t end) except -2

    @cython.locals(
        words=Py_ssize_t,
        rows="unsigned long long[::1]",
        states="unsigned long long[::1]",
        plain="long[::1]",
        last="unsigned long long",
        state="unsigned long long",
        carry="unsigned long long",
        top=cython.int,
        index=Py_ssize_t,
        word=Py_ssize_t,
        char=Py_UCS4,
        row=Py_ssize_t,
    )
    cdef Py_ssize_t find_long(self, str text, Py_ssize_t start, Py_ssize_t end) except -2
