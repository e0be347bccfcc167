#!/usr/bin/env python3
"""What stands between kernels of a row: how much longer each makes the row on the device.

    marks.py --output FILE
    openmps run -- python3 marks.py --output FILE

A row of 20 kernels of some 250 us, as collectives are, asked for far ahead of the device. Between two of them:
nothing, an event, an event and a word that the device writes to host memory behind it (as the server does, so that a
client sees how far a stream is), two waits between two streams (as PyTorch has around a collective), and these with
such words. Medians of nine rows, us a kernel more than the bare row. Ten seconds; needs PyTorch.

Through openmps a server writes such a word by itself behind an event that takes times, which is taken to be one that a
thread asks about, and behind no other one: `timed` against the rest is what that costs.
"""

import argparse
import ctypes
import json
import statistics
from pathlib import Path

ROW, ROWS = 20, 9
CYCLES = 450_000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    import torch

    cuda = ctypes.CDLL("libcuda.so.1")
    word = torch.zeros(1, dtype=torch.int32).pin_memory()
    main_stream, side = torch.cuda.Stream(), torch.cuda.Stream()
    there, back = torch.cuda.Event(), torch.cuda.Event()
    timed, timed_back = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def kernel(stream):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(CYCLES)

    def write(stream):
        status = cuda.cuStreamWriteValue32_v2(ctypes.c_void_p(stream.cuda_stream), ctypes.c_uint64(word.data_ptr()), 1, 0)
        assert status == 0, status

    def hops(words, there=there, back=back):
        there.record(main_stream)
        if words:
            write(main_stream)
        side.wait_event(there)
        kernel(side)
        back.record(side)
        if words:
            write(side)
        main_stream.wait_event(back)

    def with_event(words, there=there):
        kernel(main_stream)
        there.record(main_stream)
        for _ in range(words):
            write(main_stream)

    cases = {
        "bare": lambda: kernel(main_stream),
        "event": lambda: with_event(0),
        "timed_event": lambda: with_event(0, timed),
        "event_and_word": lambda: with_event(1),
        "event_and_two_words": lambda: with_event(2),
        "two_waits": lambda: hops(False),
        "two_timed_waits": lambda: hops(False, timed, timed_back),
        "two_waits_and_words": lambda: hops(True),
    }
    found = {name: [] for name in cases}
    for _ in range(ROWS):
        for name, one in cases.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            begin.record(main_stream)
            for _ in range(ROW):
                one()
            end.record(main_stream)
            torch.cuda.synchronize()
            found[name].append(begin.elapsed_time(end) * 1e3 / ROW)
    medians = {name: statistics.median(times) for name, times in found.items()}
    figures = {"kernel_us": medians["bare"]}
    figures.update({f"{name}_us_more": us - medians["bare"] for name, us in medians.items() if name != "bare"})
    options.output.write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
