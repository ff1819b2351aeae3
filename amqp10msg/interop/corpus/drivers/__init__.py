"""Drivers: each lets the corpus be tried on one implementation, in a process without this library.

``lines.py`` and ``lines.js`` speak the line protocol of `amqp10msg.interop.corpus.Program` for a
driver in their language: a file with a class ``Driver``. ``template.py`` is where to begin a new
one.
"""
