# C types for values.py. Changes in the same commit as it, or the two builds part ways.

from amqp10msg.wire.kernel.value_reader cimport ValueReader
