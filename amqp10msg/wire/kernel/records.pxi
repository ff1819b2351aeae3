# A compiled `__init__` for attrs classes.
#
# attrs generates an `__init__` in Python, which takes most of the time of creating an instance. In
# this build, `make_fast` removes it from subclasses of `Record`, so that they inherit the compiled
# `__init__` of `Record`. In unusual cases (a missing or unknown argument, a value that needs
# conversion or is invalid, a patched class), the compiled `__init__` calls the original.


cdef extern from *:
    """
    typedef int (*amqp_initializer)(PyObject *, PyObject *, PyObject *);
    static amqp_initializer amqp_initialize;
    static int amqp_record_init(PyObject *made, PyObject *args, PyObject *keywords) {
        return amqp_initialize(made, args, keywords);
    }
    static PyType_Slot amqp_record_slots[] = {
        {Py_tp_doc, "The base class of the classes that `make_fast` speeds up."},
        {Py_tp_init, (void *)amqp_record_init},
        {0, NULL},
    };
    static PyType_Spec amqp_record_spec = {
        "amqp10msg.wire.kernel.twin.Record", sizeof(PyObject), 0,
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE, amqp_record_slots,
    };
    /* Create the class with `initialize` as its `__init__`: a Cython method would copy the keyword
       arguments of each call. */
    static PyObject *amqp_record(amqp_initializer initialize) {
        amqp_initialize = initialize;
        return PyType_FromSpec(&amqp_record_spec);
    }
    """
    ctypedef int (*amqp_initializer)(object made, tuple args, PyObject *keywords) except -1
    object amqp_record(amqp_initializer initialize)


cdef extern from "Python.h":
    PyObject *PyDict_GetItemWithError(object mapping, PyObject *key) except? NULL


@cython.final
cdef class Parameters:
    """The parameters of a class's `__init__`; each sets the attribute with the same name."""

    cdef object init  # the original __init__ of the class
    cdef AttributeSlots layout
    cdef dict places  # the index of each parameter, by name
    cdef tuple plain  # for each parameter, the types to store unchanged; None for all types
    cdef tuple defaults
    cdef Py_ssize_t positional  # number of parameters that may be positional arguments
    # Bit mask of the parameters that a call must pass: those without a default, or whose default
    # cannot be stored unchanged.
    cdef unsigned int needed

    def __init__(self, cls, dict plain):
        init = cls.__init__
        code = init.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        # An __init__ with **keywords must be called, because it raises errors for them.
        if code.co_flags & 0x04 or count - 1 > MOST_SLOTS:
            raise TypeError(f"{cls.__name__}.__init__ takes too many arguments")
        names = code.co_varnames[1:count]
        self.init = init
        self.layout = AttributeSlots(cls, names)
        self.places = {name: place for place, name in enumerate(names)}
        self.plain = tuple([plain.get(name) for name in names])
        self.positional = code.co_argcount - 1
        given = init.__defaults__ or ()
        known = dict(init.__kwdefaults__ or {})
        known.update(zip(names[self.positional - len(given):self.positional], given))
        self.defaults = tuple([known.get(name) for name in names])
        self.needed = 0
        for place, name in enumerate(names):
            types = self.plain[place]
            if name not in known or (types is not None and type(known[name]) not in types):
                self.needed |= 1u << place

    cdef bint take(self, made, tuple args, PyObject *keywords) except -1:
        """Set all attributes; if the original `__init__` is needed, set none and return False."""
        cdef PyObject *held[MOST_SLOTS]
        cdef PyObject *key
        cdef PyObject *value
        cdef Py_ssize_t i, place = 0, at = 0
        cdef Py_ssize_t count = PyTuple_GET_SIZE(args)
        cdef unsigned int found = 0
        if count > self.positional or not self.layout.direct():
            return False
        for i in range(self.layout.count):
            held[i] = PyTuple_GET_ITEM(self.defaults, i)
        for i in range(count):
            held[i] = PyTuple_GET_ITEM(args, i)
            found |= 1u << i
            if not self.is_plain(i, held[i]):
                return False
        while keywords != NULL and PyDict_Next(<dict>keywords, &at, &key, &value):
            place = self.place_of(key, place)
            if place < 0 or found & 1u << place or not self.is_plain(place, value):
                return False
            found |= 1u << place
            held[place] = value
            place += 1
        if self.needed & ~found:
            return False
        for i in range(self.layout.count):
            amqp_set(made, self.layout.offsets[i], held[i])
        return True

    cdef inline Py_ssize_t place_of(self, PyObject *name, Py_ssize_t first) except -2:
        """Return the index of a parameter; -1 if there is no parameter with this name.

        The names in a call are usually the same objects as the names of the parameters, and in the
        same order. Therefore the search starts at the index `first`, and first compares identities.
        """
        cdef PyObject *known
        cdef Py_ssize_t i
        for i in range(first, self.layout.count):
            if PyTuple_GET_ITEM(self.layout.names, i) == name:
                return i
        known = PyDict_GetItemWithError(self.places, name)
        return -1 if known == NULL else <object>known

    cdef inline bint is_plain(self, Py_ssize_t place, PyObject *value) except -1:
        """Return whether the value of a parameter can be stored unchanged."""
        cdef PyObject *types = PyTuple_GET_ITEM(self.plain, place)
        cdef PyObject *kind = amqp_type(value)
        cdef Py_ssize_t i
        if types == <PyObject *>None:
            return True
        for i in range(PyTuple_GET_SIZE(<tuple>types)):
            if PyTuple_GET_ITEM(<tuple>types, i) == kind:
                return True
        return False


cdef dict PARAMETERS = {}


cdef int initialize(made, tuple args, PyObject *keywords) except -1:
    """The `__init__` of `Record`: set the attributes of an instance of a derived class."""
    cdef PyObject *known = PyDict_GetItem(PARAMETERS, type(made))
    if known == NULL or not (<Parameters>known).take(made, args, keywords):
        own_init(type(made))(made, *args, **({} if keywords == NULL else <dict>keywords))
    return 0


Record = amqp_record(initialize)


class Signature:
    """A descriptor that returns the signature of a class's original `__init__`."""

    def __get__(self, instance, owner):
        if owner is None or owner.__init__ is not Record.__init__:
            return None  # the class was patched: inspect.signature uses its __init__
        import inspect

        whole = inspect.signature(own_init(owner))
        return whole.replace(parameters=list(whole.parameters.values())[1:])


def make_fast(cls, **plain):
    """Replace the ``__init__`` of a class by a function in C.

    Args:
        cls: a subclass of `Record` with slots. Each parameter of its ``__init__`` has the name of
            the attribute that it sets.
        plain: for parameters that ``__init__`` converts or checks, the types that it would store
            unchanged. For an argument of another type, the class's own ``__init__`` is called.
    """
    PARAMETERS[cls] = Parameters(cls, plain)
    del cls.__init__
    cls.__signature__ = Signature()


cdef object own_init(cls):
    """Return the original ``__init__`` of a class, or of its first base class that has one."""
    for base in cls.__mro__:
        if base in PARAMETERS:
            return (<Parameters>PARAMETERS[base]).init
    raise TypeError(f"{cls.__name__} cannot be called")
