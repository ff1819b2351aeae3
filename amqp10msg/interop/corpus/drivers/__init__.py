"""Drivers: each connects the corpus to one implementation, in a process without this library.

A driver is a Python or JavaScript file that wraps the implementation. ``lines.py`` and ``lines.js``
load a driver in their language and implement the line protocol of
`amqp10msg.interop.corpus.Program`. The templates are starting points for new drivers: for values,
for messages, and ``template_program.py`` for a program in another language.
"""
