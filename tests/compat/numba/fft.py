"""A Fourier transform by hand: complex numbers in shared memory, a barrier a stage."""

import math

import numpy as np
from numba import complex128, cuda

N = 256


@cuda.jit
def transform(rows, out):
    shared = cuda.shared.array(N, complex128)
    i = cuda.threadIdx.x
    # Bits of the index, reversed.
    j = 0
    for bit in range(8):
        j |= ((i >> bit) & 1) << (7 - bit)
    shared[j] = rows[cuda.blockIdx.x, i]
    cuda.syncthreads()
    half = 1
    while half < N:
        place = i & (half - 1)
        low = shared[(i & ~(2 * half - 1)) + place]
        high = shared[(i & ~(2 * half - 1)) + place + half]
        angle = -math.pi * place / half
        turned = high * complex(math.cos(angle), math.sin(angle))
        value = low - turned if i & half else low + turned
        cuda.syncthreads()
        shared[i] = value
        cuda.syncthreads()
        half *= 2
    out[cuda.blockIdx.x, i] = shared[i]


random = np.random.default_rng(1)
rows = random.normal(size=(6, N)) + 1j * random.normal(size=(6, N))
out = cuda.device_array_like(rows)
transform[6, N](cuda.to_device(rows), out)
np.testing.assert_allclose(out.copy_to_host(), np.fft.fft(rows), rtol=1e-10, atol=1e-10)
