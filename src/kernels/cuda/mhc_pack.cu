// mhc's weights γ_map φ in the order in which the tensor cores want them (mma.cuh), one thread 16 bytes.
#include "kernels/cuda/mhc_tile.cuh"

namespace siamese::kernels {
namespace {

/// Forward: piece 3i + t of stream i, products 8t … 8t+7 as rows g: the lane's 8 columns of product 8t + g.
/// Backward: piece 3w + v has registers 4v … 4v+3 of twelve, register 3i + s of stream i: the products 2q + 8s and
/// 2q + 8s + 1 of the column that index g of word w stands for.
__global__ void pack_kernel(MhcParametersCuda p, int d, bool forward, uint4* packed) {
  const int at = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), lane = at % 32, piece = at / 32 % 12,
            group = at / 32 / 12;
  if (group * kTileColumns >= d) return;
  const int g = lane / 4, q = lane % 4;
  Words out;
  for (int j = 0; j < 4; ++j) {
    float pair[2];
    for (int k = 0; k < 2; ++k) {
      if (forward) {
        const int stream = piece / 3, product = 8 * (piece % 3) + g, column = group * kTileColumns + 8 * q + 2 * j + k;
        pair[k] = mhc_weight(p, static_cast<int64_t>(stream) * d + column, product);
      } else {
        const int word = piece / 3, reg = 4 * (piece % 3) + j, stream = reg / 3, product = 2 * q + 8 * (reg % 3) + k;
        const int column = group * kTileColumns + tile_column(g, word);
        pair[k] = mhc_weight(p, static_cast<int64_t>(stream) * d + column, product);
      }
    }
    out.w[j] = pack(pair[0], pair[1]);
  }
  packed[at] = vector(out);
}

}  // namespace

cudaError_t mhc_pack_cuda(const MhcSizes& sizes, const MhcParametersCuda& p, bool forward, void* packed,
                          cudaStream_t stream) {
  if (!sizes.tiles()) return cudaErrorInvalidValue;
  const unsigned blocks = static_cast<unsigned>((sizes.d / kTileColumns * 12 * 32 + 127) / 128);
  pack_kernel<<<blocks, 128, 0, stream>>>(p, sizes.d, forward, static_cast<uint4*>(packed));
  return cudaGetLastError();
}

}  // namespace siamese::kernels
