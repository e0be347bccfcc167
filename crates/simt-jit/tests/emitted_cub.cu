// Kernels of CUB and Thrust, to be compiled to PTX.
#include <cub/cub.cuh>
#include <cuda/std/functional>
#include <thrust/device_ptr.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>

template <class T>
void all(T *a, T *b, int *n, int count, void *room, size_t &bytes) {
  cub::DeviceRadixSort::SortKeys(room, bytes, a, b, count);
  cub::DeviceMergeSort::SortKeys(room, bytes, a, count, cuda::std::less<T>{});
  cub::DeviceReduce::Sum(room, bytes, a, b, count);
  cub::DeviceScan::InclusiveSum(room, bytes, a, b, count);
  cub::DeviceSelect::Unique(room, bytes, a, b, n, count);
  cub::DeviceRunLengthEncode::Encode(room, bytes, a, b, n, n, count);
  thrust::sort(thrust::device_ptr<T>(a), thrust::device_ptr<T>(a + count));
  thrust::reduce(thrust::device_ptr<T>(a), thrust::device_ptr<T>(a + count));
}

void kernels(void *a, void *b, int *n, int count, void *room, size_t &bytes) {
  all((int *)a, (int *)b, n, count, room, bytes);
  all((double *)a, (double *)b, n, count, room, bytes);
  all((unsigned char *)a, (unsigned char *)b, n, count, room, bytes);
}

__global__ void blocks(const float *in, float *out, int count) {
  using Load = cub::BlockLoad<float, 128, 4, cub::BLOCK_LOAD_TRANSPOSE>;
  using Scan = cub::BlockScan<float, 128, cub::BLOCK_SCAN_WARP_SCANS>;
  using Sort = cub::BlockRadixSort<float, 128, 4>;
  __shared__ union { typename Load::TempStorage load; typename Scan::TempStorage scan; typename Sort::TempStorage sort; } room;
  float values[4];
  Load(room.load).Load(in, values, count, 0.f);
  __syncthreads();
  Scan(room.scan).InclusiveSum(values, values);
  __syncthreads();
  Sort(room.sort).Sort(values);
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = values[i];
}
