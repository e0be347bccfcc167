"""Dropout by Triton's random numbers (Philox): the same numbers at each launch, and as many as are asked for."""

import numpy as np
import triton
import triton.language as tl
from support import Array, close, zeros


@triton.jit
def dropout(x, out, n, rate, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.rand(seed, at) > rate
    tl.store(out + at, tl.where(kept, tl.load(x + at, mask=at < n) / (1 - rate), 0.0), mask=at < n)


n, rate = 10000, 0.3
x = np.random.default_rng(13).random(n, np.float32) + 1
once, again, other = (zeros(n, np.float32) for _ in range(3))
for out, seed in ((once, 123), (again, 123), (other, 5)):
    dropout[(triton.cdiv(n, 512),)](Array(x), out, n, rate, seed, BLOCK=512)
kept = once.numpy() != 0
close(once.numpy(), np.where(kept, x / (1 - np.float32(rate)), 0), 1e-5)
close(again.numpy(), once.numpy(), 0)
assert abs(kept.mean() - (1 - rate)) < 0.02, kept.mean()
assert (other.numpy() != once.numpy()).mean() > 0.1


def philox(seed, counter, rounds=10):
    """Philox 4x32, the first of its four words."""
    c = [np.uint64(counter), np.uint64(0), np.uint64(0), np.uint64(0)]
    k = [np.uint64(seed), np.uint64(0)]
    mask = np.uint64(0xFFFFFFFF)
    for _ in range(rounds):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(b >> np.uint64(32)) ^ c[1] ^ k[0], b & mask, (a >> np.uint64(32)) ^ c[3] ^ k[1], a & mask]
        k = [(k[0] + np.uint64(0x9E3779B9)) & mask, (k[1] + np.uint64(0xBB67AE85)) & mask]
    return int(c[0])


for place in range(0, n, 997):
    word = np.int32(np.uint32(philox(123, place)))
    number = (-int(word) - 1 if word < 0 else int(word)) * 4.6566127342e-10
    assert (number > rate) == kept[place], place
