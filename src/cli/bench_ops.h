// The rows of `siamese bench --ops`.
#pragma once

#include <string>
#include <vector>

#include "cli/op_timer.h"

namespace siamese::cli {

/// Every operator, forward and backward, against a copy of as many bytes; those named in `only` where it is not empty.
/// Throws Error where there is no GPU.
void bench_ops(const std::string& device, bool json, const std::vector<std::string>& only);

void bench_stream_steps(OpTimer& timer);
void bench_hyper_steps(OpTimer& timer);
void bench_layers(OpTimer& timer);  // activations, QKV norm with RoPE
void bench_attention_norms(OpTimer& timer);
void bench_ends(OpTimer& timer);      // cross entropy, embedding, AdamW
void bench_products(OpTimer& timer);  // products by themselves and with epilogues, attention
void bench_columns_and_dropout(OpTimer& timer);
void bench_experts(OpTimer& timer);

/// bf16 noise, kOpSets times.
std::vector<at::Tensor> noise_sets(const OpTimer& timer, at::IntArrayRef shape);

}  // namespace siamese::cli
