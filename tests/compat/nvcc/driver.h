// For programs that call the driver API themselves, in the library that they load as libcuda.so.1.
#pragma once
#include "check.h"
#include <cstring>
#include <cuda.h>
#include <dlfcn.h>
#include <string>
#include <vector>

static void *driver_symbol(const char *name) {
    static void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *symbol = library ? dlsym(library, name) : nullptr;
    if (!symbol) {
        std::printf("no %s: %s\n", name, dlerror());
        std::exit(1);
    }
    return symbol;
}

#define SYMBOL_OF_(function) #function
// The symbol that cuda.h makes of a name: cuMemAlloc is cuMemAlloc_v2.
#define SYMBOL_OF(function) SYMBOL_OF_(function)
#define DRIVER(function) (reinterpret_cast<decltype(&function)>(driver_symbol(SYMBOL_OF(function))))

// Ends the program with a line that names the call and the error, if that is not the expected one.
#define ANSWERS(expected, function, ...)                                                         \
    do {                                                                                         \
        CUresult result_ = DRIVER(function)(__VA_ARGS__);                                        \
        if (result_ != (expected)) {                                                             \
            std::printf("line %d: %s answers %d\n", __LINE__, #function, int(result_));          \
            std::exit(1);                                                                        \
        }                                                                                        \
    } while (0)
#define CU(function, ...) ANSWERS(CUDA_SUCCESS, function, __VA_ARGS__)

// Initialises the driver and makes the first device's primary context current.
static inline CUcontext primary_context() {
    CUdevice device;
    CUcontext context;
    CU(cuInit, 0);
    CU(cuDeviceGet, &device, 0);
    CU(cuDevicePrimaryCtxRetain, &context, device);
    CU(cuCtxSetCurrent, context);
    return context;
}

// A kernel that adds a number to `n` integers, and a variable, as PTX.
static const char *const ADD = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 counter = 7;
.visible .entry add(.param .u64 to, .param .u32 by, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %r<8>;
    .reg .b64 %d<4>;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    ld.param.u32 %r5, [n];
    setp.ge.u32 %p, %r4, %r5;
    @%p ret;
    ld.param.u64 %d1, [to];
    cvta.to.global.u64 %d1, %d1;
    mul.wide.u32 %d2, %r4, 4;
    add.u64 %d1, %d1, %d2;
    ld.param.u32 %r6, [by];
    ld.global.u32 %r7, [%d1];
    add.u32 %r7, %r7, %r6;
    st.global.u32 [%d1], %r7;
    ret;
}
.visible .entry nothing() { ret; }
)";
