// The model a recipe asks for.
#pragma once

#include <memory>
#include <string>

#include "io/safetensors.h"
#include "models/deit.h"
#include "models/dit.h"
#include "models/language_model.h"

namespace siamese {

/// Of a recipe whose vocabulary or number of classes is settled. Parameters are not filled.
std::unique_ptr<LanguageModel> make_lm(const Recipe& recipe, at::Device device);
std::unique_ptr<DeiT> make_deit(const Recipe& recipe, at::Device device);
std::unique_ptr<DiT> make_dit(const Recipe& recipe, at::Device device);

/// Parameters of the model, whatever its family, without taking memory; of without_data(recipe).
int64_t count_parameters(const Recipe& recipe);
/// The recipe with sizes in place of those that only its data knows: a vocabulary of bytes (token files would have to
/// say), ten classes.
Recipe without_data(Recipe recipe);

/// Those of them that a token meets: all but the experts it is not sent to. Embeddings and head count.
int64_t active_parameters(const Params& params, const ModelConfig& config);

/// Weights of another run; learned positions of pictures follow the resolution.
void load_weights(const SafetensorsFile& file, const Params& params);

/// Parameters by part: embedding, attention, feed-forward, experts, routers, norms, the scheme's own, head; of a
/// mixture also how many are active.
std::string parameter_table(const Params& params, const ModelConfig& config);

/// "        8 experts of 512, 2 a token; …", a line of its own for a mixture, or "".
std::string mixture_line(const ModelConfig& config);
/// "feed-forward 2048", or "experts" where every block has a mixture instead.
std::string feed_forward_words(const ModelConfig& config);

/// Tokens a sample has inside the model.
int64_t tokens_per_sample(const Recipe& recipe);

}  // namespace siamese
