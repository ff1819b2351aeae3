# Classes of attributes whose calls are parsed in C.
#
# A class that attrs made has an `__init__` in Python, which takes most of the time of making an
# instance. A class that derives from `Record` has no `__init__` of its own in this build, and so,
# as any class of Python, that of its base, which is compiled. What is out of the ordinary (a
# missing or an unknown argument, a value that is to be converted or refused, a patched class) is
# left to the `__init__` that the class was made with.


cdef extern from *:
    """
    typedef int (*amqp_initializer)(PyObject *, PyObject *, PyObject *);
    static amqp_initializer amqp_initialize;
    static int amqp_record_init(PyObject *made, PyObject *args, PyObject *keywords) {
        return amqp_initialize(made, args, keywords);
    }
    static PyType_Slot amqp_record_slots[] = {
        {Py_tp_doc, "What a class derives from whose calls are parsed in C, where the kernel is "
                    "compiled."},
        {Py_tp_init, (void *)amqp_record_init},
        {0, NULL},
    };
    static PyType_Spec amqp_record_spec = {
        "amqp10msg.wire.kernel.twin.Record", sizeof(PyObject), 0,
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE, amqp_record_slots,
    };
    /* A class whose `__init__` this is: Cython would copy the keywords of each call. */
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
    """What the `__init__` of a class takes: each parameter sets the attribute of its name."""

    cdef object init  # the class's own
    cdef Slots layout
    cdef dict places
    cdef tuple plain  # by parameter, the types of what is taken as it is; None for all types
    cdef tuple defaults
    cdef Py_ssize_t positional
    cdef unsigned int needed  # bits of the parameters without a plain default

    def __init__(self, cls, dict plain):
        init = cls.__init__
        code = init.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        # Keywords of any name are for its errors.
        if code.co_flags & 0x04 or count - 1 > MOST_SLOTS:
            raise TypeError(f"{cls.__name__}.__init__ takes too many arguments")
        names = code.co_varnames[1:count]
        self.init = init
        self.layout = Slots(cls, names)
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
        """Set all attributes; False, and nothing set, where the class's own `__init__` has to."""
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
        """Return the place of a parameter, -1 where none is called so.

        Names in a call are the same objects as those of the parameters, and mostly in their order.
        """
        cdef PyObject *known
        cdef Py_ssize_t i
        for i in range(first, self.layout.count):
            if PyTuple_GET_ITEM(self.layout.names, i) == name:
                return i
        known = PyDict_GetItemWithError(self.places, name)
        return -1 if known == NULL else <object>known

    cdef inline bint is_plain(self, Py_ssize_t place, PyObject *value) except -1:
        """Whether the value of a parameter is taken as it is."""
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
    """Set the attributes of an instance of a class that derives from `Record`."""
    cdef PyObject *known = PyDict_GetItem(PARAMETERS, type(made))
    if known == NULL or not (<Parameters>known).take(made, args, keywords):
        own_init(type(made))(made, *args, **({} if keywords == NULL else <dict>keywords))
    return 0


Record = amqp_record(initialize)


class Signature:
    """The signature of a class whose calls are parsed in C: that of its own `__init__`."""

    def __get__(self, instance, owner):
        if owner is None or owner.__init__ is not Record.__init__:
            return None  # whoever asks looks at this other __init__ then
        import inspect

        whole = inspect.signature(own_init(owner))
        return whole.replace(parameters=list(whole.parameters.values())[1:])


def make_fast(cls, **plain):
    """Have the calls of a class parsed in C.

    Args:
        cls: a class with slots that derives from `Record`. Each parameter of its ``__init__`` has
            the name of the attribute that it sets.
        plain: for parameters that are not always taken as they are, the types of which they are;
            where one is of another, the class's own ``__init__`` is called.
    """
    PARAMETERS[cls] = Parameters(cls, plain)
    del cls.__init__
    cls.__signature__ = Signature()


cdef object own_init(cls):
    """Return the original ``__init__`` of the class, or of the first of its bases."""
    for base in cls.__mro__:
        if base in PARAMETERS:
            return (<Parameters>PARAMETERS[base]).init
    raise TypeError(f"{cls.__name__} cannot be called")
