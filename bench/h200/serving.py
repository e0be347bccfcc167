#!/usr/bin/env python3
"""LLM decode servers that share a GPU: natively, under NVIDIA's MPS and through openmps, in the same run.

    serving.py DIST --output FILE [--ways native,mps,openmps] [--servers 1,2,4] [--slots 1,4,16] [--size 1b]
               [--rate R] [--seconds S]

Each server is a process with a Llama-like decoder of its own (fp16, random weights, 1 to 7 billion parameters) and
continuous batching: prompts of 256 tokens are prefilled one at a time, and one CUDA graph makes the next token of all
slots. Answers have 128 tokens. Without --rate the loop is closed: a slot that is free takes the next request. With
--rate requests arrive at random, R a second for each server, whether the server keeps up or not.

Figures: tokens a second of all servers; of the worst server the median and the 99th percentile of the time to first
token (from arrival) and of the time per output token, in ms. Answers are not compared: natively, too, they differ from one
time to the next.

FILE is JSON and is written after each figure. Needs PyTorch. A point takes --seconds and about 10 s to start.
Called by itself as `serving.py worker JSON`, it is one of the servers.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

# Layers, width, heads, heads of keys and values, width of the feed-forward part.
SIZES = {"1b": (24, 2048, 16, 4, 5632), "3b": (28, 3072, 24, 8, 8192), "7b": (32, 4096, 32, 8, 11008)}
VOCABULARY, CONTEXT, PROMPT, ANSWER = 32000, 512, 256, 128
# Different prompts.
PROMPTS = 4
POINT_S_MAX = 150


class Decoder:
    """The network, its cache of keys and values, and the graph of one decoding step for all slots."""

    def __init__(self, torch, size, slots):
        self.torch, self.slots = torch, slots
        layers, width, heads, kv_heads, hidden = SIZES[size]
        self.heads, self.kv_heads, self.head = heads, kv_heads, width // heads
        torch.manual_seed(1)

        def weights(*shape):
            return torch.randn(*shape, device="cuda", dtype=torch.float16) * 0.02

        self.embedding, self.output = weights(VOCABULARY, width), weights(VOCABULARY, width)
        kv_width = kv_heads * self.head
        self.layers = [
            {"q": weights(width, width), "k": weights(kv_width, width), "v": weights(kv_width, width),
             "o": weights(width, width), "gate": weights(hidden, width), "up": weights(hidden, width),
             "down": weights(width, hidden)}
            for _ in range(layers)
        ]
        shape = (slots, kv_heads, CONTEXT, self.head)
        self.keys = [torch.zeros(shape, device="cuda", dtype=torch.float16) for _ in range(layers)]
        self.values = [torch.zeros_like(keys) for keys in self.keys]
        self.tokens = torch.zeros(slots, device="cuda", dtype=torch.long)
        self.positions = torch.zeros(slots, device="cuda", dtype=torch.long)
        self.every_position = torch.arange(CONTEXT, device="cuda")
        self.every_slot = torch.arange(slots, device="cuda")
        exponents = torch.arange(0, self.head, 2, device="cuda").float() / self.head
        self.frequencies = 1.0 / 10000**exponents

    def norm(self, x):
        return self.torch.nn.functional.rms_norm(x, (x.shape[-1],))

    def rotate(self, x, positions):
        angles = positions[..., None].float() * self.frequencies
        cos, sin = angles.cos().half(), angles.sin().half()
        low, high = x.chunk(2, -1)
        return self.torch.cat([low * cos - high * sin, low * sin + high * cos], -1)

    def project(self, layer, y, positions):
        """Queries, keys and values of `y` (batch, length, width), by head; `positions` broadcast over the heads."""
        batch, length, _ = y.shape
        split = lambda x, heads: x.view(batch, length, heads, self.head).transpose(1, 2)  # noqa: E731
        q = self.rotate(split(y @ layer["q"].T, self.heads), positions)
        k = self.rotate(split(y @ layer["k"].T, self.kv_heads), positions)
        return q, k, split(y @ layer["v"].T, self.kv_heads)

    def finish_layer(self, layer, x, attended):
        functional = self.torch.nn.functional
        x = x + attended.transpose(1, 2).flatten(2) @ layer["o"].T
        y = self.norm(x)
        return x + (functional.silu(y @ layer["gate"].T) * (y @ layer["up"].T)) @ layer["down"].T

    def prefill(self, prompt, slot):
        """Fills the slot's cache and returns the first token of the answer."""
        x = self.embedding[prompt][None]
        positions = self.torch.arange(PROMPT, device="cuda")
        for layer, keys, values in zip(self.layers, self.keys, self.values):
            q, k, v = self.project(layer, self.norm(x), positions)
            keys[slot, :, :PROMPT], values[slot, :, :PROMPT] = k[0], v[0]
            attended = self.torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = self.finish_layer(layer, x, attended)
        return (self.norm(x[:, -1]) @ self.output.T).argmax(-1)

    def step(self):
        """The next token of every slot."""
        x = self.embedding[self.tokens][:, None]
        mask = self.torch.where(self.every_position[None] <= self.positions[:, None], 0.0, float("-inf"))
        mask = mask.half()[:, None, None]
        for layer, keys, values in zip(self.layers, self.keys, self.values):
            q, k, v = self.project(layer, self.norm(x), self.positions[:, None, None])
            keys[self.every_slot, :, self.positions] = k[:, :, 0]
            values[self.every_slot, :, self.positions] = v[:, :, 0]
            attended = self.torch.nn.functional.scaled_dot_product_attention(
                q, keys, values, attn_mask=mask, enable_gqa=True)
            x = self.finish_layer(layer, x, attended)
        self.tokens.copy_((self.norm(x[:, 0]) @ self.output.T).argmax(-1))
        self.positions.add_(1)
        self.positions.clamp_(max=CONTEXT - 1)

    def capture(self):
        torch = self.torch
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.step()
                self.prefill(torch.arange(PROMPT, device="cuda"), 0)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        torch.cuda.synchronize()
        return graph


class Arrivals:
    """When requests come: at once (closed loop), or at random times of a mean rate."""

    def __init__(self, rate, seed, begin):
        self.rate, self.random = rate, random.Random(seed)
        self.next = begin + self.gap() if rate else None

    def gap(self):
        return self.random.expovariate(self.rate)

    def take(self, now, free_since):
        """The arrival of the request that a free slot takes now; None if none has come."""
        if self.rate is None:
            return free_since
        if self.next > now:
            return None
        arrived, self.next = self.next, self.next + self.gap()
        return arrived


def percentile(values, share):
    return 1e3 * sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else None


def worker(wanted):
    import torch
    from networks import wait_for_all

    slots, seconds = wanted["slots"], wanted["seconds"]
    with torch.no_grad():
        decoder = Decoder(torch, wanted["size"], slots)
        graph = decoder.capture()
        host = torch.zeros(slots, dtype=torch.long).pin_memory()
        wait_for_all(wanted["directory"], "serving", wanted["count"])
        begin = time.perf_counter()
        arrivals = Arrivals(wanted["rate"], wanted["number"], begin)
        # Of a busy slot: tokens so far, and the time of the last one.
        busy, free_since = [None] * slots, [begin] * slots
        requests, tokens = 0, 0
        first_s, each_s = [], []
        now = begin
        while now - begin < seconds:
            for slot in range(slots):
                arrived = arrivals.take(time.perf_counter(), free_since[slot]) if busy[slot] is None else None
                if arrived is None:
                    continue
                number = requests % PROMPTS
                prompt = (torch.arange(PROMPT, device="cuda") * 7919 + number * 104729 + 13) % VOCABULARY
                first = decoder.prefill(prompt, slot)
                decoder.tokens[slot : slot + 1] = first
                decoder.positions[slot] = PROMPT
                int(first)
                now = time.perf_counter()
                first_s.append(now - arrived)
                busy[slot] = [1, now]
                requests, tokens = requests + 1, tokens + 1
            if not any(busy):
                time.sleep(max(0.0, min(0.01, arrivals.next - time.perf_counter())))
                now = time.perf_counter()
                continue
            graph.replay()
            host.copy_(decoder.tokens, non_blocking=True)
            torch.cuda.current_stream().synchronize()
            now = time.perf_counter()
            for slot, request in enumerate(busy):
                if request is None:
                    continue
                request[0] += 1
                each_s.append(now - request[1])
                request[1], tokens = now, tokens + 1
                if request[0] == ANSWER:
                    busy[slot], free_since[slot] = None, now
    print("RESULT " + json.dumps({
        "tokens_per_s": tokens / (now - begin), "requests": requests,
        "first_ms_p50": percentile(first_s, 0.5), "first_ms_p99": percentile(first_s, 0.99),
        "token_ms_p50": percentile(each_s, 0.5), "token_ms_p99": percentile(each_s, 0.99),
    }), flush=True)


def start_server(environment, directory, number, count, *, slots, seconds, size="1b", rate=None, **variables):
    """Starts one server; `count` processes meet in `directory` before any measures."""
    wanted = {"number": number, "count": count, "slots": slots, "seconds": seconds, "size": size, "rate": rate,
              "directory": str(directory)}
    command = [sys.executable, str(HERE / "serving.py"), "worker", json.dumps(wanted)]
    return subprocess.Popen(command, env={**environment, **variables}, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def result_of(process, seconds_max=POINT_S_MAX):
    """The figures that a worker printed, or its error."""
    try:
        output, errors = process.communicate(timeout=seconds_max)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        errors += f"\nno end after {seconds_max} s"
    for line in output.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line[len("RESULT "):])
    return {"error": (errors or output).strip()[-2000:]}


def summary(results):
    """Of several servers: the sum of their tokens, and the worst server's times."""
    errors = [result["error"] for result in results if "error" in result]
    if errors:
        return {"error": errors[0], "failed": len(errors)}
    times = ("first_ms_p50", "first_ms_p99", "token_ms_p50", "token_ms_p99")
    figures = {key: max((r[key] for r in results if r[key] is not None), default=None) for key in times}
    return {"tokens_per_s": sum(r["tokens_per_s"] for r in results), **figures}


def point(way, servers, slots, options):
    with tempfile.TemporaryDirectory() as directory:
        group = [start_server(way.environment, directory, number, servers, slots=slots, seconds=options.seconds,
                              size=options.size, rate=options.rate) for number in range(servers)]
        return summary([result_of(process) for process in group])


def main():
    if sys.argv[1:2] == ["worker"]:
        return worker(json.loads(sys.argv[2]))
    from common import Way, log, vendor_control

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--ways", default="native,mps,openmps")
    parser.add_argument("--servers", default="1,2,4")
    parser.add_argument("--slots", default="1,4,16")
    parser.add_argument("--size", choices=SIZES, default="1b")
    parser.add_argument("--rate", type=float, help="requests a second of each server; without it the loop is closed")
    parser.add_argument("--seconds", type=float, default=8)
    options = parser.parse_args()
    found = json.loads(options.output.read_text()) if options.output.exists() else []
    for name in options.ways.split(","):
        if name == "mps" and vendor_control() is None:
            continue
        way = Way(name, options.dist.resolve())
        with way.running():
            for servers in map(int, options.servers.split(",")):
                for slots in map(int, options.slots.split(",")):
                    figures = point(way, servers, slots, options)
                    found.append({"way": name, "servers": servers, "slots": slots, "size": options.size,
                                  "rate": options.rate, **figures})
                    log(json.dumps(found[-1]))
                    options.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
