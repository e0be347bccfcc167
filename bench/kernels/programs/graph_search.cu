// Distances from node 0 in a graph, level by level in one block. Nodes are claimed under spin locks, taken by single
// lanes of a warp: this ends only where lanes that have a lock go on while others wait for it.

static constexpr int NODES_MAX = 1024, LOCKS = 8;

extern "C" __global__ void graph_search(const int *starts, const int *targets, unsigned *distances, int nodes)
{
    __shared__ unsigned distance[NODES_MAX];
    __shared__ int queue[2][NODES_MAX], length[2], locks[LOCKS];
    for (int i = threadIdx.x; i < nodes; i += blockDim.x)
        distance[i] = ~0u;
    if (threadIdx.x < LOCKS)
        locks[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        distance[0] = 0;
        queue[0][0] = 0;
        length[0] = 1;
    }
    __syncthreads();
    for (unsigned level = 0;; ++level) {
        int from = level % 2, to = 1 - from;
        if (threadIdx.x == 0)
            length[to] = 0;
        __syncthreads();
        int count = length[from];
        if (count == 0)
            break;
        for (int i = threadIdx.x; i < count; i += blockDim.x) {
            int node = queue[from][i];
            for (int edge = starts[node]; edge < starts[node + 1]; ++edge) {
                int target = targets[edge];
                while (atomicCAS(&locks[target % LOCKS], 0, 1) != 0)
                    ;
                if (*(volatile unsigned *)&distance[target] == ~0u) {
                    *(volatile unsigned *)&distance[target] = level + 1;
                    queue[to][atomicAdd(&length[to], 1)] = target;
                }
                __threadfence_block();
                atomicExch(&locks[target % LOCKS], 0);
            }
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < nodes; i += blockDim.x)
        distances[i] = distance[i];
}
