"""The wire: the kernel, which reads and writes bytes; the types, errors and limits."""
