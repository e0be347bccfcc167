/* MPI rank: each computes a part of a sum on its GPU and checks the whole one; rank 0 prints what all of them saw.
 *
 * ranks [SECONDS]: the driver is loaded as MPI programs load it, at run time. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ELEMENTS 65536
#define BLOCK 256

static const char *const module_text =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry squares(.param .u64 out, .param .u32 first) {\n"
    " .reg .u32 %r<8>; .reg .u64 %d<4>;\n"
    " mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    " mad.lo.u32 %r4, %r1, %r2, %r3;\n"
    " ld.param.u32 %r5, [first]; add.u32 %r6, %r4, %r5;\n"
    " ld.param.u64 %d1, [out]; mul.wide.u32 %d2, %r4, 8; add.u64 %d1, %d1, %d2;\n"
    " mul.wide.u32 %d3, %r6, %r6; st.global.u64 [%d1], %d3; ret;\n}\n";

static void *driver;
static int rank;

static void *function(const char *name) {
    void *found = dlsym(driver, name);
    if (!found) {
        fprintf(stderr, "rank %d: no %s\n", rank, name);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return found;
}

static void check(int status, const char *what) {
    if (status) {
        fprintf(stderr, "rank %d: %s: error %d\n", rank, what, status);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

#define CALL(name, types, ...) check(((int (*) types)function(#name))(__VA_ARGS__), #name)

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double seconds = count > 1 ? atof(words[1]) : 1;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "rank %d: %s\n", rank, dlerror());
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int device, sms;
    void *context, *module, *kernel;
    uint64_t out;
    CALL(cuInit, (unsigned), 0);
    CALL(cuDeviceGet, (int *, int), &device, 0);
    CALL(cuDeviceGetAttribute, (int *, int, int), &sms, 16, device);
    CALL(cuDevicePrimaryCtxRetain, (void **, int), &context, device);
    CALL(cuCtxSetCurrent, (void *), context);
    CALL(cuModuleLoadData, (void **, const void *), &module, module_text);
    CALL(cuModuleGetFunction, (void **, void *, const char *), &kernel, module, "squares");
    CALL(cuMemAlloc_v2, (uint64_t *, size_t), &out, ELEMENTS * 8);
    uint64_t *host = malloc(ELEMENTS * 8);
    uint64_t all = (uint64_t)ELEMENTS * size, wanted = (all - 1) * all * (2 * all - 1) / 6;
    unsigned rounds = 0;
    double end = MPI_Wtime() + seconds;
    int go = 1;
    while (go) {
        uint32_t first = (uint32_t)rank * ELEMENTS;
        void *parameters[] = {&out, &first};
        CALL(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                              void **, void **),
             kernel, ELEMENTS / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL, parameters, NULL);
        CALL(cuMemcpyDtoH_v2, (void *, uint64_t, size_t), host, out, ELEMENTS * 8);
        uint64_t part = 0, sum;
        for (int i = 0; i < ELEMENTS; i++)
            part += host[i];
        MPI_Allreduce(&part, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        if (sum != wanted) {
            fprintf(stderr, "rank %d: the sum is %llu, not %llu\n", rank, (unsigned long long)sum,
                    (unsigned long long)wanted);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
        rounds++;
        go = MPI_Wtime() < end;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    char host_name[256];
    gethostname(host_name, sizeof host_name);
    printf("rank %d of %d on %s: %u rounds, %d SMs\n", rank, size, host_name, rounds, sms);
    MPI_Finalize();
    return 0;
}
