"""The corpus, written by hand from the specification: octets, what they say, and the clause.

No octet here comes out of the library's encoder: `_write.octets` turns hex and quoted text into
octets, and a few helpers put sizes and counts in front of content.
"""
