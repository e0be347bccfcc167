#define CENTRES 16

kernel void k_means(global const float4 *points, global const float4 *centres, global uint *nearest, int length)
{
    local float4 near[CENTRES];
    if (get_local_id(0) < CENTRES)
        near[get_local_id(0)] = centres[get_local_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    int i = get_global_id(0);
    if (i >= length)
        return;
    float4 p = points[i];
    float least = 3.4e38f;
    uint best = 0;
    for (int c = 0; c < CENTRES; ++c) {
        float4 q = near[c];
        float dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z, dw = p.w - q.w;
        float distance = dx * dx + dy * dy + dz * dz + dw * dw;
        if (distance < least) {
            least = distance;
            best = c;
        }
    }
    nearest[i] = best;
}
