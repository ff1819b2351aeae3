"""A process that decodes what a spooler lands, batch after batch, until it is killed.

    python -m tests.spark.stream_to_kill LANDING OUT STATE [finish]

With ``finish`` it takes what is there and ends.
"""

from __future__ import annotations

import sys

from amqp10msg import spark
from amqp10msg.net.ends.parquet import LANDED_SCHEMA

# A task may fail three times, as on a cluster.
MASTER = "local[2,4]"


def main() -> None:
    landing, out, state, *rest = sys.argv[1:]
    session = spark.session(
        MASTER,
        config={
            "spark.sql.warehouse.dir": f"{state}/warehouse",
            "spark.log.level": "ERROR",
        },
    )
    rows = session.readStream.schema(session.createDataFrame(LANDED_SCHEMA.empty_table()).schema)
    writer = (
        rows.option("maxFilesPerTrigger", 100 if rest else 1)
        .parquet(landing)
        .writeStream.format("amqp10")
        .options(**spark.Job("decode", columns=("message_id", "body")).as_options())
        .option("checkpointLocation", f"{state}/checkpoint")
    )
    writer = (
        writer.trigger(availableNow=True) if rest else writer.trigger(processingTime="0 seconds")
    )
    writer.start(out).awaitTermination()
    session.stop()


if __name__ == "__main__":
    main()
