// Output from a kernel, which appears on the program's standard output at the next synchronisation.

#include <cstdio>

// Every kind of conversion, from one thread, so that the order of the lines is certain.
extern "C" __global__ void print_conversions(int number, double real, unsigned long long large)
{
    printf("plain text with 100%%\n");
    printf("int %d, padded [%6d], left [%-6d], zeros [%06d], sign [%+d]\n", number, number, number, number, number);
    printf("unsigned %u, hex %x, HEX %X, octal %o\n", (unsigned)number, (unsigned)number, (unsigned)number,
           (unsigned)number);
    printf("long long %lld, hex %llx\n", (long long)large, large);
    printf("real %f, short [%8.3f], exponent %e, general %g\n", real, real, real, real);
    printf("char %c, string %s, padded [%10s]\n", 'x', "kernel", "right");
}

// One line a thread; lines of different threads may come in any order.
extern "C" __global__ void print_threads()
{
    printf("block %u thread %u\n", blockIdx.x, threadIdx.x);
}
