// The four kinds of source. `make_source` chooses one; nothing else needs to know them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/source.h"

namespace siamese {

/// Whether a file is divided into a training part and a validation tail, or is all validation.
enum class Split { tail, validation_only };

std::unique_ptr<Source> make_text_source(const std::string& file, int64_t sequence_length, uint64_t seed, bool shuffle,
                                         Split split = Split::tail);

/// `tokens` may be empty: validation only.
std::unique_ptr<Source> make_token_source(const DataConfig& data, int64_t sequence_length, uint64_t seed);

std::unique_ptr<Source> make_arithmetic_source(int64_t sequence_length, uint64_t seed);

/// Whether a problem (op is '+' or '-') is kept out of training. Fixed for ever: it must not depend on the seed, or
/// checkpoints of different runs could not be compared on the same problems.
bool held_out(uint32_t a, char op, uint32_t b);

std::unique_ptr<Source> make_sentences_source(int64_t sequence_length, uint64_t seed);

}  // namespace siamese
