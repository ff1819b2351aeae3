"""Large bodies: at most one copy of the bytes, in linear time."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial

from bench import ours, peers
from bench.harness import Contender, Effort, measure
from bench.messages import MIB, large
from bench.report import Figure, Floor, duration

COPY = "copy of the bytes"


def peak(call: Callable[[], object]) -> int:
    """Return the peak memory of one call, in bytes above the initial memory."""
    call()  # the first call may fill caches
    tracemalloc.start()
    try:
        _result = call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def run_decode(effort: Effort) -> Figure:
    """Measure time and memory of decoding a large data section, next to a plain copy."""
    modules, left_out = peers.load(*peers.PEERS)
    size = effort.mebibytes
    data = large(size)
    contenders = [
        Contender(ours.NAME, partial(ours.read_data, data)),
        Contender(COPY, partial(bytes, memoryview(data))),
    ]
    for peer, module in modules.items():
        if peer is peers.MSGSPEC:
            packed = module.encode(data)
            contenders.append(Contender(module.NAME, partial(module.decode, packed)))
        else:
            contenders.append(Contender(module.NAME, partial(module.read_data, data)))
    timings = measure(contenders, effort)
    copies = peak(partial(ours.read_data, data)) / (size * MIB)
    return Figure(
        key="large-decode",
        title=f"Decode a {size} MiB data section",
        timings=timings,
        floors=(
            Floor("at most the time of 2 copies", timings.share(COPY), at_most=2),
            Floor(
                "peak memory at most 1.1 copies",
                copies,
                at_most=1.1,
                compiled_only=False,
            ),
        ),
        left_out=left_out,
        remarks=(f"Peak memory of one decode: {copies:.3f} times the body.",),
    )


def run_encode(effort: Effort) -> Figure:
    """Encode one large data section."""
    modules, left_out = peers.load(peers.PROTON, peers.MSGSPEC)
    size = effort.mebibytes
    body = b"\xa5" * (size * MIB)
    contenders = [
        Contender(ours.NAME, partial(ours.build_data, body)),
        Contender(COPY, partial(bytes, memoryview(body))),
    ]
    for peer, module in modules.items():
        call = module.encode if peer is peers.MSGSPEC else module.build_data
        contenders.append(Contender(module.NAME, partial(call, body)))
    copies = peak(partial(ours.build_data, body)) / (size * MIB)
    return Figure(
        key="large-encode",
        title=f"Encode a {size} MiB data section",
        timings=measure(contenders, effort),
        left_out=left_out,
        remarks=(f"Peak memory of one encode: {copies:.3f} times the body.",),
    )


def run_linear(effort: Effort) -> Figure:
    """Decode 1 MiB and its doublings: the time per MiB must not grow."""
    sizes = [2**power for power in range(effort.mebibytes.bit_length())]
    contenders = []
    for size in sizes:
        data = large(size)
        contenders.append(Contender(f"{size} MiB", partial(ours.read_data, data)))
        contenders.append(Contender(f"{size} MiB, {COPY}", partial(bytes, memoryview(data))))
    timings = measure(contenders, effort)
    medians = [timing.median for timing in timings.entries]
    copies = [own / copy for own, copy in zip(medians[::2], medians[1::2], strict=True)]
    return Figure(
        key="large-linear",
        title="Decode data sections of growing size",
        timings=timings,
        floors=(
            Floor(
                "at most the time of 2 copies at every size",
                max(copies),
                at_most=2,
                compiled_only=False,
            ),
        ),
        remarks=(
            "Time for each MiB, and in copies of the same size: "
            + ", ".join(
                f"{duration(own / size)} ({ratio:.2f})"
                for size, own, ratio in zip(sizes, medians[::2], copies, strict=True)
            )
            + ".",
        ),
    )
