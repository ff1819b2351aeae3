"""Test every implementation that can be installed here, and write the reference page.

    python tools/conformance_page.py FOLDER

FOLDER gets the scoreboard and the results; docs/reference/conformance.md gets the findings. What
cannot be installed is named, and left out. Beside the server of this library, the brokers of
AMQP10MSG_BROKERS are tested, URLs with spaces between them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from amqp10msg.atomic_files import write_whole
from amqp10msg.interop import conformance, corpus
from amqp10msg.interop.conformance.brokers import run_broker
from amqp10msg.net.serve import Server

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "conformance.md"
# Through a broker at the same time: they wait more than they work.
_WAYS = 16
HEAD = """\
# Conformance of implementations

`make conformance` tested these with the {count:,} cases that the corpus had then, each in
processes of its own, and wrote this page. [The corpus](corpus.md) may
have more cases now. A blank cell was not asked: the implementation has no public function for it.
[Conformance runs](conformance-results.md) says what the columns mean;
*typed* and *identical* are not required. Codecs are asked about outcomes and termini as the
described lists that they are, and need not refuse what only a declaration forbids. A *note* is
no fault: no clause forbids what was found, and a case that has nothing else counts as passed.
*Live* are brokers, through which the messages among the cases went; of a broker, a *crash* is a
session or connection that it ended with an internal error or without any, while its other
connections went on.

These are facts about the versions named, as far as the drivers in
`amqp10msg/interop/corpus/drivers` reach, not a judgement of whole products: peers may never send
many of these bytes, and what an application sees depends on more than a codec. A finding that is
wrong is a fault of the driver or of the corpus, so please report it.

The clause of a fault is the one that is broken, wherever it was seen; that of a crash, a hang or a
note is the one that the case is about. Of many cases the smallest is shown, with its bytes.

"""


def main(folder: Path) -> None:
    """Run the command, then the brokers, and write what was found."""
    command = [sys.executable, "-m", "amqp10msg", "conformance", "run", "-o", str(folder)]
    subprocess.run(command, check=False)  # it ends with status 1 where a case failed
    cases = corpus.load()
    peers = [*conformance.load(folder / "results.json"), *brokers(cases)]
    conformance.save(peers, folder / "results.json")
    write_whole(folder / "junit.xml", conformance.junit(peers))
    write_whole(folder / "index.html", conformance.scoreboard(peers, cases))
    told = conformance.markdown(peers, cases)
    write_whole(folder / "report.md", told)
    write_whole(PAGE, HEAD.format(count=len(cases)) + told)
    print(f"{PAGE}, {folder}/index.html")


def brokers(cases: list[corpus.Case]) -> Iterator[conformance.PeerResults]:
    """Yield the results of the server of this library and of other brokers."""
    with Server(accept_durable=True) as server:
        for url in [f"{server.url}/held-{{n}}", *os.environ.get("AMQP10MSG_BROKERS", "").split()]:
            try:
                yield run_broker(url, cases, jobs=_WAYS if "{n}" in url else 1)
            except (ValueError, conformance.PeerError) as error:
                print(f"left out: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
