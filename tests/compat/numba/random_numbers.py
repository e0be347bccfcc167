"""Random numbers in kernels (Numba's own xoroshiro128+)."""
import numpy as np
from numba import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32


@cuda.jit
def estimate_pi(states, rounds, out):
    i = cuda.grid(1)
    inside = 0
    for _ in range(rounds):
        x = xoroshiro128p_uniform_float32(states, i)
        y = xoroshiro128p_uniform_float32(states, i)
        inside += x * x + y * y <= 1.0
    out[i] = 4.0 * inside / rounds


states = create_xoroshiro128p_states(512, seed=1)
out = np.zeros(512, dtype=np.float32)
estimate_pi[4, 128](states, 200, out)
assert abs(out.mean() - np.pi) < 0.03, out.mean()
