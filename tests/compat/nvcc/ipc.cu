// Memory, an event and a pool of one process that another one opens: the program starts itself once more.
#include "check.h"
#include <cstdint>
#include <cstring>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

const int WORDS = 1 << 20;

struct Handles {
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t event, answer;
    cudaMemPoolPtrExportData pointer;
};

__global__ void fill(int *x, int value) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < WORDS; i += gridDim.x * blockDim.x) x[i] = value + i;
}

__global__ void add(int *x, int by) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < WORDS; i += gridDim.x * blockDim.x) x[i] += by;
}

// A descriptor and some bytes over a socket, as programs hand pools over.
static void send_all(int socket, Handles handles, int fd) {
    char control[CMSG_SPACE(sizeof fd)] = {};
    iovec part = {&handles, sizeof handles};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    EXPECT(sendmsg(socket, &message, 0) == ssize_t(sizeof handles));
}

static Handles receive_all(int socket, int *fd) {
    Handles handles;
    char control[CMSG_SPACE(sizeof *fd)];
    iovec part = {&handles, sizeof handles};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    EXPECT(recvmsg(socket, &message, 0) == ssize_t(sizeof handles));
    memcpy(fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof *fd);
    return handles;
}

static int other(int socket) {
    int fd, value[2];
    Handles handles = receive_all(socket, &fd);
    int *memory, *pooled;
    CHECK(cudaIpcOpenMemHandle((void **)&memory, handles.memory, cudaIpcMemLazyEnablePeerAccess));
    cudaEvent_t event, answer;
    CHECK(cudaIpcOpenEventHandle(&event, handles.event));
    CHECK(cudaIpcOpenEventHandle(&answer, handles.answer));
    cudaMemPool_t pool;
    CHECK(cudaMemPoolImportFromShareableHandle(&pool, (void *)(uintptr_t)fd, cudaMemHandleTypePosixFileDescriptor, 0));
    CHECK(cudaMemPoolImportPointer((void **)&pooled, pool, &handles.pointer));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamWaitEvent(stream, event, 0));
    add<<<8, 256, 0, stream>>>(memory, 1000);
    add<<<8, 256, 0, stream>>>(pooled, 2000);
    CHECK(cudaEventRecord(answer, stream));
    CHECK(cudaMemcpyAsync(value, memory + WORDS - 1, 4, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemcpyAsync(value + 1, pooled + 5, 4, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(value[0] == 7 + WORDS - 1 + 1000);
    EXPECT(value[1] == 9 + 5 + 2000);
    CHECK(cudaFreeAsync(pooled, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemPoolDestroy(pool));
    CHECK(cudaIpcCloseMemHandle(memory));
    CHECK(cudaEventDestroy(event));
    CHECK(cudaEventDestroy(answer));
    return 0;
}

int main(int count, char **arguments) {
    if (count == 3 && !strcmp(arguments[1], "other")) return other(atoi(arguments[2]));
    // Before CUDA starts in this process: children of one that uses CUDA cannot.
    int sockets[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    pid_t child = fork();
    if (child == 0) {
        char number[16];
        close(sockets[0]);
        snprintf(number, sizeof number, "%d", sockets[1]);
        execl("/proc/self/exe", arguments[0], "other", number, nullptr);
        _exit(127);
    }
    close(sockets[1]);
    Handles handles;
    int *memory, *pooled, value[2], fd;
    CHECK(cudaMalloc(&memory, WORDS * sizeof *memory));
    CHECK(cudaIpcGetMemHandle(&handles.memory, memory));
    cudaEvent_t event, answer;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
    CHECK(cudaEventCreateWithFlags(&answer, cudaEventDisableTiming | cudaEventInterprocess));
    CHECK(cudaIpcGetEventHandle(&handles.event, event));
    CHECK(cudaIpcGetEventHandle(&handles.answer, answer));
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
    properties.location.type = cudaMemLocationTypeDevice;
    cudaMemPool_t pool;
    CHECK(cudaMemPoolCreate(&pool, &properties));
    CHECK(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor, 0));
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMallocFromPoolAsync((void **)&pooled, WORDS * sizeof *pooled, pool, stream));
    CHECK(cudaMemPoolExportPointer(&handles.pointer, pooled));
    fill<<<8, 256, 0, stream>>>(memory, 7);
    fill<<<8, 256, 0, stream>>>(pooled, 9);
    CHECK(cudaEventRecord(event, stream));
    send_all(sockets[0], handles, fd);
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    CHECK(cudaEventSynchronize(answer));
    CHECK(cudaMemcpy(value, memory + 3, 4, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(value + 1, pooled, 4, cudaMemcpyDeviceToHost));
    EXPECT(value[0] == 7 + 3 + 1000);
    EXPECT(value[1] == 9 + 2000);
    CHECK(cudaFreeAsync(pooled, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemPoolDestroy(pool));
    CHECK(cudaFree(memory));
}
