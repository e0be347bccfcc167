#define RUN 512u

kernel void fft(global const float2 *values, global const float2 *factors, global float2 *transformed)
{
    local float2 near[RUN];
    uint thread = get_local_id(0), start = get_group_id(0) * RUN;
    for (uint i = thread; i < RUN; i += RUN / 2) {
        uint reversed = 0;
        for (uint bit = 0; bit < 9; ++bit)
            reversed |= (i >> bit & 1) << (8 - bit);
        near[reversed] = values[start + i];
    }
    for (uint span = 1; span < RUN; span *= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        uint k = thread & (span - 1);
        uint i = 2 * thread - k;
        float2 factor = factors[k * (RUN / 2 / span)];
        float2 a = near[i], b = near[i + span];
        float2 turned = (float2)(b.x * factor.x - b.y * factor.y, b.x * factor.y + b.y * factor.x);
        near[i] = a + turned;
        near[i + span] = a - turned;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = thread; i < RUN; i += RUN / 2)
        transformed[start + i] = near[i];
}
