"""Product of single-precision matrices, by products of TF32."""

import numpy as np
import triton.language as tl
from support.product import check

random = np.random.default_rng(4)
for M, N, K in ((256, 128, 256), (100, 60, 68)):
    a, b = (random.standard_normal(shape, np.float32) for shape in ((M, K), (K, N)))
    check(a, b, tl.float32, np.float32, 1e-1)
