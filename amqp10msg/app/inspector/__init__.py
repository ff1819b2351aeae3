"""Read, check and translate messages in any format, and render the inspector page.

The command line uses the modules for reading and checking. The page uses `Session` in
`amqp10msg.app.inspector.session`. To keep commands fast, this package does not import its modules.
"""
