# Has _merge_basic.py compiled, as it is: no name of it needs a C type.
