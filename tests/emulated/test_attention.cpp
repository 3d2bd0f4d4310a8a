// Attention of heads of 64 (kernels/cuda/attention_*.cuh) without a GPU.
#include "attention_case.h"

namespace siamese::kernels {
namespace {

// Rows of one and of several tiles, ends within a tile; heads that share keys; more items than thread blocks.
TEST(EmulatedAttention, Forward) {
  for (const bool causal : {true, false}) {
    AttentionCase({1, 1, 1, 300, causal}, Heads::plain).check_forward(2);
    AttentionCase({2, 4, 2, 70, causal}, Heads::plain).check_forward(3);
  }
}
TEST(EmulatedAttention, InTwoPasses) {
  for (const bool causal : {true, false}) {
    AttentionCase({1, 1, 1, 300, causal}, Heads::turned).check_in_two_passes(2);
    AttentionCase({2, 4, 2, 70, causal}, Heads::plain).check_in_two_passes(3);
  }
}
// Heads after each other; teams with idle members.
TEST(EmulatedAttention, InOnePass) {
  AttentionCase({1, 1, 1, 300}, Heads::plain).check_in_one_pass(1, 4);
  AttentionCase({2, 2, 2, 200}, Heads::turned).check_in_one_pass(1, 4);
}
TEST(EmulatedAttention, ThroughNorms) {
  AttentionCase({1, 2, 2, 60}, Heads::normed).check_in_one_pass(1, 4);
  AttentionCase({1, 1, 1, 700}, Heads::normed).check_in_one_pass(1, 4);
  AttentionCase({2, 3, 3, 150}, Heads::normed).check_in_one_pass(2, 4);
  AttentionCase({1, 2, 2, 60}, Heads::alike).check_in_one_pass(1, 4);
}
TEST(EmulatedAttention, ThroughNormsThatAttentionsInputTells) {
  AttentionCase({1, 2, 2, 60}, Heads::alike).check_in_one_pass(1, 4, true);
  AttentionCase({1, 1, 1, 700}, Heads::alike).check_in_one_pass(1, 4, true);
  AttentionCase({2, 3, 3, 150}, Heads::alike).check_in_one_pass(2, 4, true);
  AttentionCase({2, 3, 3, 150}, Heads::normed).check_in_one_pass(2, 4, true);
  AttentionCase({1, 2, 2, 60}, Heads::almost).check_in_one_pass(1, 4, true);
  AttentionCase({1, 2, 2, 60}, Heads::almost).check_reads_raw(1, 4);
}

}  // namespace
}  // namespace siamese::kernels
