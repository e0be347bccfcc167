"""Product of matrices of bytes, sums in 32 bits: exact."""

import numpy as np
import triton.language as tl
from support.product import check

random = np.random.default_rng(5)
a, b = (random.integers(-128, 128, shape, np.int8) for shape in ((192, 160), (160, 128)))
check(a, b, tl.int32, np.int32, 0)
