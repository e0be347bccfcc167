// Inference of a multi-layer perceptron: fully connected layers, a softmax and the choice of a class. A block takes a
// sample at a time and keeps its input in dynamic shared memory.

// outputs[sample][o] = weights[o] . inputs[sample] + bias[o], then max(0, .) if `relu`.
// Dynamic shared memory: `input_width` floats.
extern "C" __global__ void dense(const float *weights, const float *bias, const float *inputs, float *outputs,
                                 int input_width, int output_width, int samples, int relu)
{
    extern __shared__ float row[];
    for (int sample = blockIdx.x; sample < samples; sample += gridDim.x) {
        for (int i = threadIdx.x; i < input_width; i += blockDim.x)
            row[i] = inputs[sample * input_width + i];
        __syncthreads();
        for (int o = threadIdx.x; o < output_width; o += blockDim.x) {
            float sum = bias[o];
            // Weights are stored by input, then output, so that neighbouring lanes read neighbouring words.
            for (int i = 0; i < input_width; ++i)
                sum = fmaf(weights[i * output_width + o], row[i], sum);
            outputs[sample * output_width + o] = relu ? fmaxf(sum, 0.0f) : sum;
        }
        __syncthreads();
    }
}

// probabilities[sample] = softmax(scores[sample]) and classes[sample] = its largest entry; a warp a sample, at most 32
// classes. The block's size must be a multiple of 32.
extern "C" __global__ void softmax_classify(const float *scores, float *probabilities, int *classes, int width,
                                            int samples)
{
    unsigned lane = threadIdx.x % 32;
    int warps = blockDim.x / 32 * gridDim.x;
    for (int sample = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; sample < samples; sample += warps) {
        float score = lane < width ? scores[sample * width + lane] : -__int_as_float(0x7f800000);
        float best = score;
        int best_class = lane;
        for (int offset = 16; offset > 0; offset /= 2) {
            float other = __shfl_xor_sync(0xffffffffu, best, offset);
            int other_class = __shfl_xor_sync(0xffffffffu, best_class, offset);
            if (other > best || (other == best && other_class < best_class)) {
                best = other;
                best_class = other_class;
            }
        }
        float weight = lane < width ? expf(score - best) : 0.0f;
        float total = weight;
        for (int offset = 16; offset > 0; offset /= 2)
            total += __shfl_xor_sync(0xffffffffu, total, offset);
        if (lane < width)
            probabilities[sample * width + lane] = weight / total;
        if (lane == 0)
            classes[sample] = best_class;
    }
}
