"""Reads, checks and translates messages in any format, and renders the inspector page.

The command line uses the modules for reading and checking. The page uses `Session` in
`amqp10msg.app.inspector.session`. This package imports none of its modules, to keep commands fast.
"""
