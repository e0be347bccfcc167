// Accelerations of n bodies under gravity. Positions go through shared memory a block's width at a time; the fourth
// component is the mass.

extern "C" __global__ void n_body(const float4 *positions, float4 *accelerations, int bodies, float softening2)
{
    __shared__ float4 tile[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 own = positions[i];
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int start = 0; start < bodies; start += blockDim.x) {
        tile[threadIdx.x] = positions[start + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < 256; ++k) {
            float4 other = tile[k];
            float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening2);
            float pull = other.w * inverse * inverse * inverse;
            ax += dx * pull;
            ay += dy * pull;
            az += dz * pull;
        }
        __syncthreads();
    }
    accelerations[i] = make_float4(ax, ay, az, 0.0f);
}
