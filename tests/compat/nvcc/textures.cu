// Texture and surface objects: of arrays, layers, volumes, levels and plain memory; filtered and not.
#include "check.h"
#include <cmath>
#include <vector>

__global__ void sample(cudaTextureObject_t t, float *out, int w, int h, float dx, float dy) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) out[y * w + x] = tex2D<float>(t, x + dx, y + dy);
}

__global__ void sample_layers(cudaTextureObject_t t, float *out, int w, int h) {
    int x = threadIdx.x, y = threadIdx.y, layer = blockIdx.x;
    out[(layer * h + y) * w + x] = tex2DLayered<float>(t, x + 0.5f, y + 0.5f, layer);
}

__global__ void sample_volume(cudaTextureObject_t t, float4 *out, float x, float y, float z) {
    *out = tex3D<float4>(t, x, y, z);
}

__global__ void sample_level(cudaTextureObject_t t, float *out, float level) {
    *out = tex2DLod<float>(t, 0.5f, 0.5f, level);
}

__global__ void fetch(cudaTextureObject_t t, int *out, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = tex1Dfetch<int>(t, i) + 1;
}

__global__ void turn(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    uchar4 texel;
    surf2Dread(&texel, from, x * 4, y);
    surf2Dwrite(make_uchar4(texel.w, texel.z, texel.y, texel.x), to, (w - 1 - x) * 4, h - 1 - y);
}

static cudaTextureObject_t of_array(cudaArray_t array, cudaTextureFilterMode filter, bool normalized = false) {
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc texture = {};
    texture.addressMode[0] = texture.addressMode[1] = texture.addressMode[2] = cudaAddressModeClamp;
    texture.filterMode = filter;
    texture.readMode = cudaReadModeElementType;
    texture.normalizedCoords = normalized;
    cudaTextureObject_t object;
    CHECK(cudaCreateTextureObject(&object, &resource, &texture, nullptr));
    return object;
}

int main() {
    const int W = 40, H = 24;
    float *out;
    CHECK(cudaMallocManaged(&out, W * H * 4 * 4));
    dim3 block(16, 8), grid((W + 15) / 16, (H + 7) / 8);

    // A picture, at its texels and between them.
    cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>();
    cudaArray_t picture;
    CHECK(cudaMallocArray(&picture, &floats, W, H));
    std::vector<float> in(W * H);
    for (int i = 0; i < W * H; i++) in[i] = float(i % W) + 1000 * (i / W);
    CHECK(cudaMemcpy2DToArray(picture, 0, 0, in.data(), W * 4, W * 4, H, cudaMemcpyHostToDevice));
    cudaTextureObject_t nearest = of_array(picture, cudaFilterModePoint);
    sample<<<grid, block>>>(nearest, out, W, H, 0.5f, 0.5f);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < W * H; i++) EXPECT(out[i] == in[i]);
    cudaTextureObject_t blended = of_array(picture, cudaFilterModeLinear);
    sample<<<grid, block>>>(blended, out, W, H, 1.0f, 1.0f);
    CHECK(cudaDeviceSynchronize());
    for (int y = 0; y < H - 1; y++)
        for (int x = 0; x < W - 1; x++) EXPECT(std::fabs(out[y * W + x] - (x + 0.5f + 1000 * (y + 0.5f))) < 0.1f);
    cudaResourceDesc described;
    CHECK(cudaGetTextureObjectResourceDesc(&described, blended));
    EXPECT(described.resType == cudaResourceTypeArray && described.res.array.array == picture);
    cudaTextureDesc how;
    CHECK(cudaGetTextureObjectTextureDesc(&how, blended));
    EXPECT(how.filterMode == cudaFilterModeLinear && how.addressMode[1] == cudaAddressModeClamp);
    CHECK(cudaDestroyTextureObject(nearest));
    CHECK(cudaDestroyTextureObject(blended));

    // Layers.
    cudaArray_t layers;
    CHECK(cudaMalloc3DArray(&layers, &floats, make_cudaExtent(8, 4, 3), cudaArrayLayered));
    std::vector<float> all(8 * 4 * 3);
    for (size_t i = 0; i < all.size(); i++) all[i] = float(i);
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(all.data(), 32, 8, 4);
    copy.dstArray = layers;
    copy.extent = make_cudaExtent(8, 4, 3);
    copy.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&copy));
    cudaTextureObject_t layered = of_array(layers, cudaFilterModePoint);
    sample_layers<<<3, dim3(8, 4)>>>(layered, out, 8, 4);
    CHECK(cudaDeviceSynchronize());
    for (size_t i = 0; i < all.size(); i++) EXPECT(out[i] == all[i]);
    CHECK(cudaDestroyTextureObject(layered));

    // A volume of vectors, blended in three dimensions, with normalised coordinates.
    cudaChannelFormatDesc vectors = cudaCreateChannelDesc<float4>();
    cudaArray_t volume;
    CHECK(cudaMalloc3DArray(&volume, &vectors, make_cudaExtent(2, 2, 2)));
    std::vector<float4> corners(8);
    for (int i = 0; i < 8; i++) corners[i] = make_float4(i, i & 1, i >> 1 & 1, i >> 2);
    copy.srcPtr = make_cudaPitchedPtr(corners.data(), 32, 2, 2);
    copy.dstArray = volume;
    copy.extent = make_cudaExtent(2, 2, 2);
    CHECK(cudaMemcpy3D(&copy));
    cudaTextureObject_t inside = of_array(volume, cudaFilterModeLinear, true);
    sample_volume<<<1, 1>>>(inside, (float4 *)out, 0.5f, 0.5f, 0.25f);
    CHECK(cudaDeviceSynchronize());
    EXPECT(out[0] == 1.5f && out[1] == 0.5f && out[2] == 0.5f && out[3] == 0);
    CHECK(cudaDestroyTextureObject(inside));

    // Levels.
    cudaMipmappedArray_t levels;
    CHECK(cudaMallocMipmappedArray(&levels, &floats, make_cudaExtent(16, 16, 0), 5));
    for (int level = 0; level < 5; level++) {
        cudaArray_t one;
        CHECK(cudaGetMipmappedArrayLevel(&one, levels, level));
        int n = 16 >> level;
        std::vector<float> value(n * n, float(10 * level));
        CHECK(cudaMemcpy2DToArray(one, 0, 0, value.data(), n * 4, n * 4, n, cudaMemcpyHostToDevice));
    }
    cudaResourceDesc mipmapped = {};
    mipmapped.resType = cudaResourceTypeMipmappedArray;
    mipmapped.res.mipmap.mipmap = levels;
    cudaTextureDesc trilinear = {};
    trilinear.filterMode = cudaFilterModeLinear;
    trilinear.mipmapFilterMode = cudaFilterModeLinear;
    trilinear.normalizedCoords = 1;
    trilinear.maxMipmapLevelClamp = 3;
    cudaTextureObject_t smooth;
    CHECK(cudaCreateTextureObject(&smooth, &mipmapped, &trilinear, nullptr));
    for (float level : {0.0f, 0.5f, 2.25f, 3.0f, 9.0f}) {
        sample_level<<<1, 1>>>(smooth, out, level);
        CHECK(cudaDeviceSynchronize());
        EXPECT(*out == 10 * std::fmin(level, 3.0f));
    }
    CHECK(cudaDestroyTextureObject(smooth));
    CHECK(cudaFreeMipmappedArray(levels));

    // Plain memory.
    int *memory, *result;
    CHECK(cudaMalloc(&memory, 400));
    CHECK(cudaMallocManaged(&result, 400));
    std::vector<int> whole(100);
    for (int i = 0; i < 100; i++) whole[i] = i * i - 50;
    CHECK(cudaMemcpy(memory, whole.data(), 400, cudaMemcpyHostToDevice));
    cudaResourceDesc linear = {};
    linear.resType = cudaResourceTypeLinear;
    linear.res.linear.devPtr = memory;
    linear.res.linear.desc = cudaCreateChannelDesc<int>();
    linear.res.linear.sizeInBytes = 400;
    cudaTextureDesc plain = {};
    cudaTextureObject_t row;
    CHECK(cudaCreateTextureObject(&row, &linear, &plain, nullptr));
    fetch<<<1, 128>>>(row, result, 100);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 100; i++) EXPECT(result[i] == whole[i] + 1);
    CHECK(cudaDestroyTextureObject(row));

    // Surfaces: read from one array, written to another one.
    cudaChannelFormatDesc bytes = cudaCreateChannelDesc<uchar4>();
    cudaArray_t arrays[2];
    cudaSurfaceObject_t surfaces[2];
    for (int i = 0; i < 2; i++) {
        CHECK(cudaMallocArray(&arrays[i], &bytes, W, H, cudaArraySurfaceLoadStore));
        cudaResourceDesc resource = {};
        resource.resType = cudaResourceTypeArray;
        resource.res.array.array = arrays[i];
        CHECK(cudaCreateSurfaceObject(&surfaces[i], &resource));
    }
    std::vector<unsigned char> texels(W * H * 4), turned(W * H * 4);
    for (size_t i = 0; i < texels.size(); i++) texels[i] = (unsigned char)(i * 7);
    CHECK(cudaMemcpy2DToArray(arrays[0], 0, 0, texels.data(), W * 4, W * 4, H, cudaMemcpyHostToDevice));
    turn<<<grid, block>>>(surfaces[0], surfaces[1], W, H);
    CHECK(cudaMemcpy2DFromArray(turned.data(), W * 4, arrays[1], 0, 0, W * 4, H, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < texels.size(); i++) EXPECT(turned[i] == texels[texels.size() - 1 - i]);
    for (int i = 0; i < 2; i++) {
        CHECK(cudaDestroySurfaceObject(surfaces[i]));
        CHECK(cudaFreeArray(arrays[i]));
    }
    for (cudaArray_t array : {picture, layers, volume}) CHECK(cudaFreeArray(array));
}
