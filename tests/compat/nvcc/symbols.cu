// Constants and variables of a module, copied to and from by name; structures as parameters.
#include "check.h"

struct Polynomial {
    float of[4];
    char degree;
    double offset;
};

__constant__ Polynomial constant;
__device__ int calls = 5;
__device__ float table[64];

__global__ void evaluate(Polynomial by_value, float x, double *out) {
    double sum = constant.offset + by_value.offset;
    for (int i = constant.degree; i >= 0; i--) sum = sum * x + constant.of[i];
    out[threadIdx.x] = sum + table[threadIdx.x];
    atomicAdd(&calls, 1);
}

int main() {
    Polynomial p = {{1, 2, 3, 4}, 3, 0.25};
    float values[64];
    for (int i = 0; i < 64; i++) values[i] = i * 0.125f;
    CHECK(cudaMemcpyToSymbol(constant, &p, sizeof p));
    CHECK(cudaMemcpyToSymbol(table, values, sizeof values));
    double *out, host[64];
    CHECK(cudaMalloc(&out, sizeof host));
    evaluate<<<1, 64>>>(p, 0.5f, out);
    CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
    double sum = p.offset + p.offset;
    for (int i = p.degree; i >= 0; i--) sum = sum * 0.5 + p.of[i];
    for (int i = 0; i < 64; i++) EXPECT(host[i] == sum + values[i]);
    int n = 0;
    CHECK(cudaMemcpyFromSymbol(&n, calls, sizeof n));
    EXPECT(n == 69);
    size_t bytes = 0;
    CHECK(cudaGetSymbolSize(&bytes, table));
    EXPECT(bytes == sizeof values);
    void *address = nullptr;
    CHECK(cudaGetSymbolAddress(&address, table));
    CHECK(cudaMemset(address, 0, bytes));
    CHECK(cudaMemcpyFromSymbol(values, table, sizeof values));
    EXPECT(values[63] == 0);
}
