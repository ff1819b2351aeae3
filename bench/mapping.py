"""A map of 10,000 entries, strings to longs, in an amqp-value section."""

from __future__ import annotations

from functools import partial

from bench import ours, peers
from bench.harness import Contender, Effort, measure
from bench.messages import map_content, map_message
from bench.report import Figure


def run_decode(effort: Effort) -> Figure:
    """Decode it into a dict."""
    modules, left_out = peers.load(*peers.PEERS)
    content = map_content(effort.entries)
    data = map_message(content)
    contenders = [Contender(ours.NAME, partial(ours.read_value, data))]
    for peer, module in modules.items():
        if peer is peers.MSGSPEC:
            call = partial(module.read_map, module.encode(content))
        else:
            call = partial(module.read_value, data)
        contenders.append(Contender(module.NAME, call))
    return Figure(
        key="map-decode",
        title=f"Decode a map of {effort.entries} entries",
        timings=measure(contenders, effort),
        left_out=left_out,
        remarks=("azure-servicebus leaves the keys undecoded.",),
    )


def run_encode(effort: Effort) -> Figure:
    """Encode a dict."""
    modules, left_out = peers.load(*peers.PEERS)
    content = map_content(effort.entries)
    contenders = [Contender(ours.NAME, partial(ours.build_value, content))]
    for peer, module in modules.items():
        call = module.encode if peer is peers.MSGSPEC else module.build_value
        contenders.append(Contender(module.NAME, partial(call, content)))
    return Figure(
        key="map-encode",
        title=f"Encode a map of {effort.entries} entries",
        timings=measure(contenders, effort),
        left_out=left_out,
    )
