// Tensor maps and what kernels do with them, for programs of this folder that copy tiles of tensors.
#pragma once
#include "driver.h"
#include <cstdint>
#include <cuda_fp16.h>

// CUDA 11 knows none.
#if CUDART_VERSION >= 12000

// A map of a matrix of f16 in rows, copied in tiles of `columns` by `rows` elements.
static inline CUtensorMap matrix_map(void *address, uint64_t width, uint64_t height, uint32_t columns, uint32_t rows,
                                     CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE) {
    CUtensorMap map;
    cuuint64_t dimensions[] = {width, height}, strides[] = {width * sizeof(__half)};
    cuuint32_t box[] = {columns, rows}, steps[] = {1, 1};
    CU(cuTensorMapEncodeTiled, &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, address, dimensions, strides, box, steps,
       CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return map;
}

__device__ static inline uint32_t shared_address(const void *pointer) {
    return uint32_t(__cvta_generic_to_shared(pointer));
}

__device__ static inline void barrier_init(uint64_t *barrier, uint32_t count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ static inline void barrier_expect(uint64_t *barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

__device__ static inline void barrier_wait(uint64_t *barrier, uint32_t parity) {
    asm volatile("{\n.reg .pred done;\nWAIT:\n"
                 "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra WAIT;\n}" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

__device__ static inline void load_tile(void *to, const CUtensorMap *map, int x, int y, uint64_t *barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                     shared_address(to)),
                 "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier))
                 : "memory");
}

#endif
