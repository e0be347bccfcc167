#include <math.h>

struct float4 {
    float x, y, z, w;
};

void run(void **args)
{
    const struct float4 *restrict positions = args[0];
    struct float4 *restrict accelerations = args[1];
    int bodies = *(int *)args[2];
    float softening2 = *(float *)args[3];

    for (int i = 0; i < bodies; ++i) {
        struct float4 own = positions[i];
        float ax = 0.0f, ay = 0.0f, az = 0.0f;
        for (int k = 0; k < bodies; ++k) {
            struct float4 other = positions[k];
            float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
            float inverse = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + softening2);
            float pull = other.w * inverse * inverse * inverse;
            ax += dx * pull;
            ay += dy * pull;
            az += dz * pull;
        }
        accelerations[i] = (struct float4){ax, ay, az, 0.0f};
    }
}
