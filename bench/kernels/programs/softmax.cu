// Softmax of rows of 256 values, a warp a row, eight values a lane.

static constexpr int WIDTH = 256, EACH = WIDTH / 32;

extern "C" __global__ void softmax(const float *rows, float *result)
{
    int lane = threadIdx.x % 32;
    size_t start = (size_t)(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * WIDTH + lane;
    float values[EACH];
    float most = -3.4e38f;
    for (int i = 0; i < EACH; ++i) {
        values[i] = rows[start + 32 * i];
        most = fmaxf(most, values[i]);
    }
    for (int offset = 16; offset > 0; offset /= 2)
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, offset));
    float sum = 0.0f;
    for (int i = 0; i < EACH; ++i) {
        values[i] = expf(values[i] - most);
        sum += values[i];
    }
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    for (int i = 0; i < EACH; ++i)
        result[start + 32 * i] = values[i] / sum;
}
