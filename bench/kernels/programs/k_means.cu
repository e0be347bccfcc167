// The nearest of 16 centres for each point of four dimensions.

static constexpr int CENTRES = 16;

extern "C" __global__ void k_means(const float4 *points, const float4 *centres, unsigned *nearest, int length)
{
    __shared__ float4 local[CENTRES];
    if (threadIdx.x < CENTRES)
        local[threadIdx.x] = centres[threadIdx.x];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= length)
        return;
    float4 p = points[i];
    float least = 3.4e38f;
    unsigned best = 0;
    for (int c = 0; c < CENTRES; ++c) {
        float4 q = local[c];
        float dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z, dw = p.w - q.w;
        float distance = dx * dx + dy * dy + dz * dz + dw * dw;
        if (distance < least) {
            least = distance;
            best = c;
        }
    }
    nearest[i] = best;
}
