// What the programs of this folder share: a check after each call, and how a program ends.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

// Ends the program with a line that names the call and the error.
#define CHECK(call)                                                                              \
    do {                                                                                         \
        cudaError_t error_ = (call);                                                             \
        if (error_ != cudaSuccess) {                                                             \
            std::printf("%s: %s (%d)\n", #call, cudaGetErrorName(error_), int(error_));          \
            std::exit(1);                                                                        \
        }                                                                                        \
    } while (0)

// Ends the program with a line that names the condition that does not hold.
#define EXPECT(condition)                                                                        \
    do {                                                                                         \
        if (!(condition)) {                                                                      \
            std::printf("line %d: not so: %s\n", __LINE__, #condition);                          \
            std::exit(1);                                                                        \
        }                                                                                        \
    } while (0)
