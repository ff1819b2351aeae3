# C types for _evaluators.py. Changes in the same commit as _evaluators.py, or the two builds part
# ways.

cimport cython

from amqp10msg.delivery.filters._values cimport (
    arithmetic, compare, is_comparable, kind_of, number, settled, types_of
)

cdef type _Message


cdef class Evaluator:
    cdef object value(self, message, now)


@cython.final
cdef class Constant(Evaluator):
    cdef object constant


@cython.final
cdef class Entry(Evaluator):
    cdef object section
    cdef object key


@cython.final
cdef class HeaderField(Evaluator):
    cdef object name
    cdef object default


@cython.final
cdef class PropertyField(Evaluator):
    cdef object name
    cdef bint is_time


@cython.final
cdef class Changed(Evaluator):
    cdef Evaluator operand
    cdef object change


@cython.final
cdef class Equal(Evaluator):
    cdef readonly object key
    cdef readonly object literal
    cdef readonly bint octets
    cdef readonly frozenset like


cdef class AllEqual(Evaluator):
    cdef bint octets
    cdef list rows

    @cython.locals(like=frozenset)
    cdef object value(self, message, now)


@cython.final
cdef class WithLiteral(Evaluator):
    cdef str sign
    cdef Evaluator operand
    cdef object literal
    cdef bint octets
    cdef object test
    cdef frozenset like


@cython.final
cdef class Comparison(Evaluator):
    cdef str sign
    cdef Evaluator left
    cdef Evaluator right
    cdef bint octets


cdef class InList(Evaluator):
    cdef Evaluator operand
    cdef frozenset plain
    cdef list others
    cdef list items
    cdef set kinds
    cdef bint negated
    cdef bint octets

    @cython.locals(rest=list, item=Evaluator)
    cdef object value(self, message, now)


@cython.final
cdef class LikeText(Evaluator):
    cdef Evaluator operand
    cdef object match
    cdef object negated
    cdef bint octets
    cdef str errors


@cython.final
cdef class Null(Evaluator):
    cdef Evaluator operand
    cdef bint negated


cdef class AllOf(Evaluator):
    cdef list parts

    @cython.locals(part=Evaluator)
    cdef object value(self, message, now)


cdef class AnyOf(Evaluator):
    cdef list parts

    @cython.locals(part=Evaluator)
    cdef object value(self, message, now)


@cython.final
cdef class Negated(Evaluator):
    cdef Evaluator operand
    cdef object negated


@cython.final
cdef class Signed(Evaluator):
    cdef Evaluator operand
    cdef bint minus


cdef class Calculation(Evaluator):
    cdef Evaluator first
    cdef list rest
    cdef bint exact
    cdef bint concatenate
    cdef bint finite

    @cython.locals(operand=Evaluator, sign=str)
    cdef object value(self, message, now)


@cython.final
cdef class Bounded(Evaluator):
    cdef Evaluator operand
    cdef object longest


@cython.final
cdef class Time(Evaluator):
    pass


@cython.final
cdef class Applied(Evaluator):
    cdef Evaluator operand
    cdef object function


cdef class TextFunction(Evaluator):
    cdef object function
    cdef Evaluator text
    cdef list counts

    @cython.locals(count=Evaluator)
    cdef object value(self, message, now)


cpdef object value_of(Evaluator evaluator, message, now)
@cython.locals(evaluator=Evaluator)
cpdef bint matches(self, message, now=*, local=*) except -1
