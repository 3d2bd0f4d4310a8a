// hybrid_star (HybridNorm*): block 0 x += Attn_qkv(N(x)); x += FF(N(x)); the other blocks as hybrid; end N(x).
#include "residual/hybrid.h"
#include "residual/schemes.h"

namespace siamese {

std::unique_ptr<Scheme> make_hybrid_star(const SchemeContext& c) { return std::make_unique<Hybrid>(c, 1); }

}  // namespace siamese
