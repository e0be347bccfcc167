// Pools of memory: what their attributes say while memory comes and goes.
#include "check.h"
#include <cstdint>

static uint64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr which) {
    uint64_t value = 0;
    CHECK(cudaMemPoolGetAttribute(pool, which, &value));
    return value;
}

static void set(cudaMemPool_t pool, cudaMemPoolAttr which, uint64_t value) {
    CHECK(cudaMemPoolSetAttribute(pool, which, &value));
}

__global__ void one(int *x) { *x = 1; }

int main() {
    const size_t bytes = 4 << 20;
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    cudaMemPool_t pool;
    CHECK(cudaMemPoolCreate(&pool, &properties));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    EXPECT(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
    int follow = 0;
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolReuseFollowEventDependencies, &follow));
    EXPECT(follow == 1);

    // What is in use is counted to the byte for multiples of the unit; what is reserved is no less.
    int *a, *b;
    CHECK(cudaMallocFromPoolAsync((void **)&a, bytes, pool, stream));
    CHECK(cudaMallocFromPoolAsync((void **)&b, bytes, pool, stream));
    EXPECT(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 2 * bytes);
    EXPECT(attribute(pool, cudaMemPoolAttrReservedMemCurrent) >= 2 * bytes);
    one<<<1, 1, 0, stream>>>(a);
    CHECK(cudaFreeAsync(a, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == bytes);
    EXPECT(attribute(pool, cudaMemPoolAttrUsedMemHigh) == 2 * bytes);
    set(pool, cudaMemPoolAttrUsedMemHigh, 0);
    EXPECT(attribute(pool, cudaMemPoolAttrUsedMemHigh) == bytes);
    uint64_t wrong = 5;
    EXPECT(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &wrong) == cudaErrorInvalidValue);
    (void)cudaGetLastError();

    // Below the threshold memory is kept, and trimming gives it back.
    set(pool, cudaMemPoolAttrReleaseThreshold, UINT64_MAX);
    EXPECT(attribute(pool, cudaMemPoolAttrReleaseThreshold) == UINT64_MAX);
    CHECK(cudaFreeAsync(b, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
    EXPECT(attribute(pool, cudaMemPoolAttrReservedMemCurrent) >= bytes);
    int *again;
    const uint64_t kept = attribute(pool, cudaMemPoolAttrReservedMemCurrent);
    CHECK(cudaMallocFromPoolAsync((void **)&again, bytes, pool, stream));
    EXPECT(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == kept);
    CHECK(cudaFreeAsync(again, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemPoolTrimTo(pool, 0));
    EXPECT(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
    EXPECT(attribute(pool, cudaMemPoolAttrReservedMemHigh) >= bytes);
    set(pool, cudaMemPoolAttrReservedMemHigh, 0);
    EXPECT(attribute(pool, cudaMemPoolAttrReservedMemHigh) == 0);
    CHECK(cudaMemPoolDestroy(pool));
}
