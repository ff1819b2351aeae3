"""Bytes in any notation read, judged, translated, and shown in a page, for people."""
