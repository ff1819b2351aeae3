# Memory that is kept between batches, which are alike and come one after the other. Taking fresh
# pages from the system for each, and giving them back, costs as much as the decoding.
#
# `kept` holds what was freed: at most MOST_KEPT bytes, 32 MiB, in all, so a batch of some 20,000
# messages of 500 bytes finds all of its memory there. What is larger than that, or smaller than
# SMALLEST_KEPT, goes to the system. Sizes are rounded up to four steps for each power of two, with
# a list for each, so that any block of a list serves whoever asks for its size: a quarter of a
# block is wasted at most. Arrow frees with the GIL or without, on any thread, so there is a lock.
# Whoever finds it taken goes to the system; nobody waits, not even the child of a fork.

cdef enum:
    SMALLEST_KEPT = 1 << 11
    MOST_KEPT = 1 << 25

# What stands before the bytes that are given out.
cdef struct Head:
    Head* next
    Py_ssize_t size

cdef struct Kept:
    PyThread_type_lock lock
    Py_ssize_t size
    Head* lists[256]

cdef Kept kept
kept.lock = PyThread_allocate_lock()


cdef inline int list_of(Py_ssize_t* size) noexcept nogil:
    """Return the number of the list for a size, which is rounded up."""
    cdef int power = 0
    cdef Py_ssize_t quarters = size[0] - 1
    while quarters >= 8:
        quarters >>= 1
        power += 1
    size[0] = quarters + 1 << power
    return 4 * power + <int> (quarters & 3)


cdef inline bint lock_kept() noexcept nogil:
    return kept.lock != NULL and PyThread_acquire_lock(kept.lock, NOWAIT_LOCK) != 0


cdef void* grab(Py_ssize_t size) noexcept nogil:
    """Allocate memory, kept or fresh; NULL if there is none."""
    cdef Head* head = NULL
    cdef int number
    if size >= SMALLEST_KEPT:
        number = list_of(&size)
        if lock_kept():
            head = kept.lists[number]
            if head != NULL:
                kept.lists[number] = head.next
                kept.size -= size
            PyThread_release_lock(kept.lock)
    if head == NULL:
        head = <Head*> malloc(sizeof(Head) + size)
        if head == NULL:
            return NULL
        head.size = size
    return head + 1


cdef void release(const void* data) noexcept nogil:
    """Keep or free what `grab` allocated; NULL is nothing."""
    cdef Head* head
    cdef int number
    if data == NULL:
        return
    head = <Head*> data - 1
    if head.size >= SMALLEST_KEPT and lock_kept():
        number = list_of(&head.size)
        if head.size <= MOST_KEPT - kept.size:
            head.next = kept.lists[number]
            kept.lists[number] = head
            kept.size += head.size
            head = NULL
        PyThread_release_lock(kept.lock)
    free(head)


cdef void* grab_zeros(Py_ssize_t size) noexcept nogil:
    cdef void* data = grab(size)
    if data != NULL:
        memset(data, 0, size)
    return data


cdef bint resize(void** data, Py_ssize_t before, Py_ssize_t after, bint zeros) noexcept nogil:
    """Move `before` bytes to more room, with zeros after if asked for; False if there is none."""
    cdef void* made = grab(after)
    if made == NULL:
        return False
    if before:
        memcpy(made, data[0], before)
    if zeros:
        memset(<uint8_t*> made + before, 0, after - before)
    release(data[0])
    data[0] = made
    return True
