// Inference of a small convolutional network, as several small kernels as frameworks launch them: 3 x 3
// convolution with ReLU, 2 x 2 maximum pooling, a fully connected layer by warp-wide dot products, softmax.
// Images are planes: [image][channel][y][x].

// Convolution with zero padding, then max(0, .). Filters [out channel][in channel][3][3], kept in shared memory for one
// output channel at a time. Grid: x spreads over (image, output channel). Dynamic shared memory: 9 * in_channels floats.
extern "C" __global__ void conv3x3_relu(const float *input, const float *filters, const float *bias, float *output,
                                        int images, int in_channels, int out_channels, int height, int width)
{
    extern __shared__ float filter[];
    int plane = height * width;
    for (int job = blockIdx.x; job < images * out_channels; job += gridDim.x) {
        int image = job / out_channels;
        int channel = job % out_channels;
        for (int i = threadIdx.x; i < 9 * in_channels; i += blockDim.x)
            filter[i] = filters[channel * 9 * in_channels + i];
        __syncthreads();
        for (int pixel = threadIdx.x; pixel < plane; pixel += blockDim.x) {
            int y = pixel / width;
            int x = pixel % width;
            float sum = bias[channel];
            for (int c = 0; c < in_channels; ++c) {
                const float *source = input + (image * in_channels + c) * plane;
                for (int dy = -1; dy <= 1; ++dy) {
                    for (int dx = -1; dx <= 1; ++dx) {
                        bool inside = y + dy >= 0 && y + dy < height && x + dx >= 0 && x + dx < width;
                        float value = inside ? source[(y + dy) * width + x + dx] : 0.0f;
                        sum += filter[c * 9 + (dy + 1) * 3 + dx + 1] * value;
                    }
                }
            }
            output[job * plane + pixel] = sum > 0.0f ? sum : 0.0f;
        }
        __syncthreads();
    }
}

// Halves both sides, keeping the largest of four. `planes` counts images times channels; height and width are the
// input's and even.
extern "C" __global__ void max_pool2(const float *input, float *output, int planes, int height, int width)
{
    int out_width = width / 2;
    int out_plane = height / 2 * out_width;
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < planes * out_plane; i += stride) {
        int plane = i / out_plane;
        int y = i % out_plane / out_width;
        int x = i % out_width;
        const float2 *top = (const float2 *)(input + plane * height * width + 2 * y * width + 2 * x);
        const float2 *bottom = (const float2 *)((const float *)top + width);
        float2 a = *top, b = *bottom;
        output[i] = fmaxf(fmaxf(a.x, a.y), fmaxf(b.x, b.y));
    }
}

// scores[image][class]: a warp a dot product. Weights [class][feature]. The block's size must be a multiple of 32.
extern "C" __global__ void fully_connected(const float *features, const float *weights, const float *bias,
                                           float *scores, int images, int feature_count, int classes)
{
    int lane = threadIdx.x % 32;
    int warps = blockDim.x / 32 * gridDim.x;
    for (int job = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; job < images * classes; job += warps) {
        const float *row = features + job / classes * feature_count;
        const float *weight = weights + job % classes * feature_count;
        float sum = 0.0f;
        for (int i = lane; i < feature_count; i += 32)
            sum += row[i] * weight[i];
        for (int offset = 16; offset > 0; offset /= 2)
            sum += __shfl_down_sync(0xffffffffu, sum, offset);
        if (lane == 0)
            scores[job] = sum + bias[job % classes];
    }
}

// One thread an image: probabilities and the most likely class. The fast exponential is the device's approximate one.
extern "C" __global__ void softmax(const float *scores, float *probabilities, int *labels, int images, int classes)
{
    int image = blockIdx.x * blockDim.x + threadIdx.x;
    if (image >= images)
        return;
    const float *row = scores + image * classes;
    float best = row[0];
    int label = 0;
    for (int c = 1; c < classes; ++c) {
        if (row[c] > best) {
            best = row[c];
            label = c;
        }
    }
    float total = 0.0f;
    for (int c = 0; c < classes; ++c)
        total += __expf(row[c] - best);
    for (int c = 0; c < classes; ++c)
        probabilities[image * classes + c] = __fdividef(__expf(row[c] - best), total);
    labels[image] = label;
}
