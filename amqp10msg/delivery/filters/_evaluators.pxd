cimport cython

cpdef kind_of(value)
cdef fast_types_of(literal)
cdef bint is_fast_type(value) except -1
cpdef normalized(value, bint as_rabbitmq)
cpdef bint compares_as_java(literal) except -1
cdef tuple _promote_numbers(left, right)
cpdef compare(sign, left, right, bint as_rabbitmq, bint promotes=*)
cdef _decimal_to_float(value)
cdef _encode_text(value)
cpdef matches_reference(reference, value)
cpdef arithmetic(sign, left, right, bint truncates, bint raises_overflow=*)
cdef _calculate(sign, left, right, bint truncates)
cpdef to_number(value)

cdef type _Message

cdef class Evaluator:
    cdef object value(self, message, now)

cdef class Constant(Evaluator):
    cdef object constant

cdef class MapEntry(Evaluator):
    cdef object section, key

cdef class HeaderField(Evaluator):
    cdef object name, default

cdef class PropertyField(Evaluator):
    cdef object name, default
    cdef bint is_time

cdef class Converted(Evaluator):
    cdef Evaluator operand
    cdef object change

cdef class PropertyEquals(Evaluator):
    cdef readonly object key, literal
    cdef readonly bint as_rabbitmq
    cdef readonly frozenset fast_types

cdef class PropertiesEqual(Evaluator):
    cdef bint as_rabbitmq
    cdef list rows

    @cython.locals(fast_types=frozenset)
    cdef object value(self, message, now)

cdef class LiteralComparison(Evaluator):
    cdef str sign
    cdef Evaluator operand
    cdef object literal, test
    cdef bint as_rabbitmq
    cdef frozenset fast_types

cdef class Comparison(Evaluator):
    cdef str sign
    cdef Evaluator left, right
    cdef bint as_rabbitmq

cdef class InList(Evaluator):
    cdef Evaluator operand
    cdef frozenset simple_values
    cdef list complex_items, items
    cdef set kinds
    cdef bint negated, as_rabbitmq

    @cython.locals(items_to_compare=list, item=Evaluator)
    cdef object value(self, message, now)

cdef class Like(Evaluator):
    cdef Evaluator operand
    cdef object match, negated
    cdef bint as_rabbitmq
    cdef str errors

cdef class IsNull(Evaluator):
    cdef Evaluator operand
    cdef bint negated

cdef class AndOr(Evaluator):
    cdef list parts
    cdef object decisive, neutral

    @cython.locals(part=Evaluator)
    cdef object value(self, message, now)

cdef class Not(Evaluator):
    cdef Evaluator operand
    cdef object negated

cdef class Signed(Evaluator):
    cdef Evaluator operand
    cdef bint minus

cdef class Calculation(Evaluator):
    cdef Evaluator first
    cdef list operations
    cdef bint truncates, concatenate, raises_overflow

    @cython.locals(operand=Evaluator, sign=str)
    cdef object value(self, message, now)

cdef class StepCounter:
    cdef public long long steps
    cdef public object max_text_length

cdef class LengthLimited(Evaluator):
    cdef Evaluator operand
    cdef long long weight
    cdef StepCounter work

cdef class CurrentTime(Evaluator):
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
    cdef long[::1] ascii_rows
    cdef dict non_ascii_rows

    @cython.locals(
        words=Py_ssize_t,
        rows="unsigned long long[::1]",
        ascii_rows="long[::1]",
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
        ascii_rows="long[::1]",
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
