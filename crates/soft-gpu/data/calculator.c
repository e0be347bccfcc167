// Cases for the test of the occupancy model: what NVIDIA's own calculator, the toolkit's
// cuda_occupancy.h, says of kernels and devices drawn at random (seeded).
//
//     cc -w -I INCLUDE/OF/THE/TOOLKIT calculator.c -o calculator && ./calculator > calculator.tsv
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "cuda_occupancy.h"

enum { CASES = 160 };

// What devices of each compute capability say of themselves: threads an SM, registers a block and
// an SM, KiB of shared memory an SM and a block after opting in, KiB reserved a block.
static const struct { int major, minor, threads, block_registers, shared_kib, optin_kib, reserved; } DEVICES[] = {
    {5, 0, 2048, 65536, 64, 48, 0},   {5, 2, 2048, 65536, 96, 48, 0},   {5, 3, 2048, 32768, 64, 48, 0},
    {6, 0, 2048, 65536, 64, 48, 0},   {6, 1, 2048, 65536, 96, 48, 0},   {6, 2, 2048, 32768, 64, 48, 0},
    {7, 0, 2048, 65536, 96, 96, 0},   {7, 2, 2048, 65536, 96, 96, 0},   {7, 5, 1024, 65536, 64, 64, 0},
    {8, 0, 2048, 65536, 164, 163, 1}, {8, 6, 1536, 65536, 100, 99, 1},  {8, 7, 1536, 65536, 164, 163, 1},
    {8, 9, 1536, 65536, 100, 99, 1},  {9, 0, 2048, 65536, 228, 227, 1}, {10, 0, 2048, 65536, 228, 227, 1},
    {10, 3, 2048, 65536, 228, 227, 1}, {11, 0, 1536, 65536, 228, 227, 1}, {12, 0, 1536, 65536, 100, 99, 1},
    {12, 1, 1536, 65536, 100, 99, 1},
};

static unsigned long long state = 2026;

static int pick(int below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (int)((state >> 33) % (unsigned)below);
}

int main(void) {
    printf("major\tminor\tthreads\tregisters\tstatic_bytes\tdynamic_bytes\tmax_dynamic_bytes\tcarveout\tbarriers\t"
           "blocks\twanted_blocks\tavailable_bytes\tbest_threads\tbest_blocks\n");
    for (unsigned n = 0; n < sizeof DEVICES / sizeof *DEVICES; n++) {
        cudaOccDeviceProp device;
        memset(&device, 0, sizeof device);
        device.computeMajor = DEVICES[n].major;
        device.computeMinor = DEVICES[n].minor;
        device.maxThreadsPerBlock = 1024;
        device.maxThreadsPerMultiprocessor = DEVICES[n].threads;
        device.regsPerBlock = DEVICES[n].block_registers;
        device.regsPerMultiprocessor = 65536;
        device.warpSize = 32;
        device.sharedMemPerBlock = 48 << 10;
        device.sharedMemPerMultiprocessor = DEVICES[n].shared_kib << 10;
        device.numSms = 1;
        device.sharedMemPerBlockOptin = DEVICES[n].optin_kib << 10;
        device.reservedSharedMemPerBlock = DEVICES[n].reserved << 10;
        for (int i = 0; i < CASES; i++) {
            cudaOccFuncAttributes kernel;
            cudaOccDeviceState setting;
            cudaOccResult result;
            memset(&kernel, 0, sizeof kernel);
            memset(&setting, 0, sizeof setting);
            memset(&result, 0, sizeof result);
            int threads = pick(4) ? 32 * (1 + pick(32)) : 1 + pick(1024);
            int optin = DEVICES[n].optin_kib << 10;
            kernel.maxThreadsPerBlock = 1024;
            kernel.numRegs = 1 + pick(pick(2) ? 64 : 255);
            kernel.sharedSizeBytes = pick(3) ? 0 : pick(48 << 10);
            kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
            int most = pick(2) ? optin : 48 << 10;
            kernel.maxDynamicSharedSizeBytes = most - kernel.sharedSizeBytes;
            kernel.numBlockBarriers = pick(3) ? 1 : pick(17);
            setting.carveoutConfig = pick(2) ? -1 : pick(101);
            int dynamic = pick(3) ? pick(pick(2) ? 16 << 10 : optin + 2000) : 0;
            if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &setting, threads, dynamic)) return 1;
            int wanted = 1 + pick(8);
            size_t available = 0;
            long bytes = -1;
            if (!cudaOccAvailableDynamicSMemPerBlock(&available, &device, &kernel, &setting, wanted, threads))
                bytes = (long)available;
            int grid = 0, best = 0;
            if (cudaOccMaxPotentialOccupancyBlockSize(&grid, &best, &device, &kernel, &setting, 0, dynamic)) return 1;
            printf("%d\t%d\t%d\t%d\t%zu\t%d\t%zu\t%d\t%d\t%d\t%d\t%ld\t%d\t%d\n", device.computeMajor, device.computeMinor,
                   threads, kernel.numRegs, kernel.sharedSizeBytes, dynamic, kernel.maxDynamicSharedSizeBytes,
                   setting.carveoutConfig, kernel.numBlockBarriers, result.activeBlocksPerMultiprocessor, wanted, bytes,
                   best, grid);
        }
    }
    return 0;
}
