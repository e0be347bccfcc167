"""Product of half-precision matrices, sums in single precision; edges are masked."""

import numpy as np
import triton.language as tl
from support.product import check

random = np.random.default_rng(3)
for M, N, K in ((256, 256, 256), (130, 72, 200)):
    a, b = (random.standard_normal(shape, np.float32).astype(np.float16) for shape in ((M, K), (K, N)))
    check(a, b, tl.float32, np.float32, 2e-2)
