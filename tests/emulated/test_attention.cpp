// Attention's backward pass in one pass (kernels/cuda/attention_at_once.cuh) without a GPU.
#include "attention_case.h"

namespace siamese::kernels {
namespace {

// Rows of one and of several tiles, ends within a tile; heads after each other; teams with idle members.
TEST(EmulatedAttention, InOnePass) {
  AttentionCase({1, 1, 300, 1, 4}, Heads::plain).check();
  AttentionCase({2, 2, 200, 1, 4}, Heads::turned).check();
}
TEST(EmulatedAttention, ThroughNorms) {
  AttentionCase({1, 2, 60, 1, 4}, Heads::normed).check();
  AttentionCase({1, 1, 700, 1, 4}, Heads::normed).check();
  AttentionCase({2, 3, 150, 2, 4}, Heads::normed).check();
}

}  // namespace
}  // namespace siamese::kernels
