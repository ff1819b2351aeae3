# Has conversions.py compiled, as it is: no name of it needs a C type.
