"""Bytes in any notation read, judged, translated and shown, for the command line and for a page.

Nothing is imported here, so that a command loads what it needs alone: `Session` of
`amqp10msg.app.inspector.session` is what a page is made of.
"""
