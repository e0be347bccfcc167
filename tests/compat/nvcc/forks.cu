// fork(): a child made before the first call may use the device; one made afterwards gets an error, and the
// parent goes on.
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

__global__ void twice(int *x) { x[threadIdx.x] *= 2; }

static void use() {
    int host[32], *device;
    for (int i = 0; i < 32; i++) host[i] = i;
    CHECK(cudaMalloc(&device, sizeof host));
    CHECK(cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice));
    twice<<<1, 32>>>(device);
    CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++) EXPECT(host[i] == 2 * i);
    CHECK(cudaFree(device));
}

template <class F> static int in_child(F child) {
    std::fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        child();
        std::fflush(stdout);
        _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return status;
}

int main() {
    EXPECT(in_child(use) == 0);
    use();
    EXPECT(in_child([] {
        void *memory;
        EXPECT(cudaMalloc(&memory, 16) == cudaErrorInitializationError);
    }) == 0);
    use();
}
