"""The user interfaces: the command line, the inspector, and the basis of all HTML pages."""
