// One step of n bodies under gravity. Positions go through shared memory a block's width at a time; the fourth
// component is the mass. The reciprocal square root is the device's approximate one, so results agree between devices
// to a few units in the last place, not to the bit.

extern "C" __global__ void n_body_step(const float4 *positions, const float4 *velocities, float4 *new_positions,
                                       float4 *new_velocities, int bodies, float dt, float softening2)
{
    extern __shared__ float4 tile[];

    int chunks = (bodies + blockDim.x - 1) / blockDim.x;
    for (int chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
        int i = chunk * blockDim.x + threadIdx.x;
        float4 own = i < bodies ? positions[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        float ax = 0.0f, ay = 0.0f, az = 0.0f;
        for (int start = 0; start < bodies; start += blockDim.x) {
            int j = start + threadIdx.x;
            // A body beyond the end has no mass, hence no effect.
            tile[threadIdx.x] = j < bodies ? positions[j] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            __syncthreads();
#pragma unroll 4
            for (int k = 0; k < blockDim.x; ++k) {
                float4 other = tile[k];
                float dx = other.x - own.x;
                float dy = other.y - own.y;
                float dz = other.z - own.z;
                float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening2);
                float pull = other.w * inverse * inverse * inverse;
                ax += dx * pull;
                ay += dy * pull;
                az += dz * pull;
            }
            __syncthreads();
        }
        if (i < bodies) {
            float4 velocity = velocities[i];
            velocity.x += ax * dt;
            velocity.y += ay * dt;
            velocity.z += az * dt;
            own.x += velocity.x * dt;
            own.y += velocity.y * dt;
            own.z += velocity.z * dt;
            new_velocities[i] = velocity;
            new_positions[i] = own;
        }
    }
}
