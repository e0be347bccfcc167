kernel void n_body(global const float4 *positions, global float4 *accelerations, int bodies, float softening2)
{
    local float4 tile[256];
    int i = get_global_id(0), thread = get_local_id(0);
    float4 own = positions[i];
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int start = 0; start < bodies; start += 256) {
        tile[thread] = positions[start + thread];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < 256; ++k) {
            float4 other = tile[k];
            float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
            float inverse = rsqrt(dx * dx + dy * dy + dz * dz + softening2);
            float pull = other.w * inverse * inverse * inverse;
            ax += dx * pull;
            ay += dy * pull;
            az += dz * pull;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    accelerations[i] = (float4)(ax, ay, az, 0.0f);
}
