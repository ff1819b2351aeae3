# C types for _single.py. Changes in the same commit as _single.py, or the two builds part ways.

from amqp10msg.translate.report cimport Notes

cpdef translated(basic, profile, Notes notes, given=*)
cpdef basic_translation(message, profile, given, losses)
