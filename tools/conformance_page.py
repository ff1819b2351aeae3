"""Hold every implementation that can be installed here to the corpus, and write the reference page.

    python tools/conformance_page.py FOLDER

FOLDER gets the scoreboard and the results; docs/reference/conformance.md gets the findings. What
cannot be installed is named, and left out. Beside the server of this library, the brokers of
AMQP10MSG_BROKERS are held to it, URLs with spaces between them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from amqp10msg import conformance, corpus
from amqp10msg.net.serve import Server

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "conformance.md"
HEAD = """\
# Conformance of implementations

`make conformance` held these to the {count:,} cases of corpus 1.0.0, each in processes of its own,
and wrote this page. What is not asked of an implementation is blank: it has no public function for
it. [Hold an implementation to the corpus](../how-to/conformance.md) says what the columns mean;
*typed* and *identical* are no requirement. *Live* are brokers, through which the messages among the
cases went. These are facts about the versions named, as far as the
drivers in `amqp10msg/corpus/drivers` reach; a finding that is wrong is a fault of the driver or of
the corpus, so please report it.

Of many cases of one clause the smallest is shown, with its bytes.

"""


def main(folder: Path) -> None:
    """Run the command, and write what it found."""
    command = [sys.executable, "-m", "amqp10msg", "conformance", "run", "-o", str(folder)]
    command += [word for name in conformance.PEERS for word in ("--peer", name)]
    with Server(accept_durable=True) as server:
        brokers = [f"{server.url}/held", *os.environ.get("AMQP10MSG_BROKERS", "").split()]
        command += [word for url in brokers for word in ("--broker", url)]
        subprocess.run(command, check=False)  # it ends with status 1 where a case failed
    peers = conformance.load(folder / "results.json")
    cases = corpus.load()
    text = HEAD.format(count=len(cases)) + conformance.markdown(peers, cases)
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE}, {folder}/index.html")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
