"""The forms of files, and the default limit of a message's size."""

from __future__ import annotations

#: The forms of files that can be read.
FORMS = ("raw", "prefixed", "jsonl", "cborseq", "pcap", "parquet", "avro")
#: The default maximum size of a message in bytes, which limits memory.
MAX_SIZE = 256 << 20
