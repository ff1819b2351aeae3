"""Encoding and decoding: the kernel, which reads and writes bytes; types, errors and limits."""
