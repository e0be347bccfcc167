// What another source file would define.
#pragma once

__device__ int offset = 5;
__device__ int twice(int x) { return x * 2; }
