enum { CENTRES = 16 };

struct float4 {
    float x, y, z, w;
};

void run(void **args)
{
    const struct float4 *restrict points = args[0], *restrict centres = args[1];
    unsigned *restrict nearest = args[2];
    int length = *(int *)args[3];

    for (int i = 0; i < length; ++i) {
        struct float4 p = points[i];
        float least = 3.4e38f;
        unsigned best = 0;
        for (int c = 0; c < CENTRES; ++c) {
            struct float4 q = centres[c];
            float dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z, dw = p.w - q.w;
            float distance = dx * dx + dy * dy + dz * dz + dw * dw;
            if (distance < least) {
                least = distance;
                best = c;
            }
        }
        nearest[i] = best;
    }
}
