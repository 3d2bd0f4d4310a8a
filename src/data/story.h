// One short story of the bundled sentence language.
#pragma once

#include <string>

#include "data/draws.h"

namespace siamese {

/// Three to six sentences and a newline. What a model can learn from it, from near to far: spelling, agreement of verb
/// and subject, one tense a story, he or she, and facts that must be recalled at the end (owner, colour, count, place).
std::string tell_story(Draws& draws);

}  // namespace siamese
