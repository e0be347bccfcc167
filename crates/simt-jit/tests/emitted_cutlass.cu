// Products of matrices by CUTLASS, to be compiled to PTX: 128 threads, m = rows of a, n = columns of b.
#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm.h>

template <class Gemm>
__device__ void product(void *a, void *b, void *c, void *d, int m, int n, int k) {
  using Kernel = typename Gemm::GemmKernel;
  extern __shared__ __align__(128) char room[];
  typename Gemm::ThreadblockSwizzle swizzle;
  cutlass::gemm::GemmCoord size(m, n, k);
  auto tiles = swizzle.get_tiled_shape(
      size, {Gemm::ThreadblockShape::kM, Gemm::ThreadblockShape::kN, Gemm::ThreadblockShape::kK}, 1);
  typename Kernel::Params params(
      size, tiles, {(typename Gemm::ElementA *)a, typename Gemm::LayoutA(k)},
      {(typename Gemm::ElementB *)b, typename Gemm::LayoutB(k)}, {(typename Gemm::ElementC *)c, typename Gemm::LayoutC(n)},
      {(typename Gemm::ElementC *)d, typename Gemm::LayoutC(n)}, typename Gemm::EpilogueOutputOp::Params());
  Kernel()(params, *reinterpret_cast<typename Kernel::SharedStorage *>(room));
}

template <class In, class Out, class Sum, int K, class Instruction, class Class = cutlass::arch::OpClassTensorOp>
using Gemm = cutlass::gemm::device::Gemm<
    In, cutlass::layout::RowMajor, In, cutlass::layout::ColumnMajor, Out, cutlass::layout::RowMajor, Sum, Class,
    cutlass::arch::Sm80, cutlass::gemm::GemmShape<64, 64, K>, cutlass::gemm::GemmShape<32, 32, K>, Instruction,
    cutlass::epilogue::thread::LinearCombination<Out, 128 / cutlass::sizeof_bits<Out>::value, Sum, Sum>,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>, 3>;

#define PRODUCT(name, ...)                                                                                \
  extern "C" __global__ void __launch_bounds__(128) name(void *a, void *b, void *c, void *d, int m, int n, int k) { \
    product<Gemm<__VA_ARGS__>>(a, b, c, d, m, n, k);                                                      \
  }

PRODUCT(halves, cutlass::half_t, float, float, 32, cutlass::gemm::GemmShape<16, 8, 16>)
PRODUCT(halves_to_halves, cutlass::half_t, cutlass::half_t, cutlass::half_t, 32, cutlass::gemm::GemmShape<16, 8, 16>)
PRODUCT(brain_floats, cutlass::bfloat16_t, float, float, 32, cutlass::gemm::GemmShape<16, 8, 16>)
PRODUCT(tf32, cutlass::tfloat32_t, float, float, 16, cutlass::gemm::GemmShape<16, 8, 8>)
PRODUCT(bytes, int8_t, int32_t, int32_t, 64, cutlass::gemm::GemmShape<16, 8, 32>)
PRODUCT(doubles, double, double, double, 16, cutlass::gemm::GemmShape<8, 8, 4>)
