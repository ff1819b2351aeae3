"""What people see: the command line, the inspector, and the foundation of all pages."""
