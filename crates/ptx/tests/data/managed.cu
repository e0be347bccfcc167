// nvcc -arch=sm_90 -cubin (managed_sm_90), -arch=sm_80, and -arch=sm_90 -G (managed_sm_90_debug).
struct Pair { int a; float b; };
__managed__ int total = 3;
__managed__ double table[300];
__managed__ Pair pair = {1, 2};
__device__ int plain = 7;

extern "C" __global__ void use(int i) {
    total += plain;
    table[i] = 1;
    pair.b = 3;
}
