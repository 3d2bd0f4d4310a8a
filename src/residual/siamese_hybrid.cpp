// siamese_hybrid ("hybrid-pre", the paper's best): attention r = Attn_qkvnorm(c1⊙x + N_y(y)), c1 a learned vector
// starting at 1, no norm on x, no input norm; feed-forward x = N_x(x); r = FF(N_in(x + N_y(y))); both: x += r/c; y +=
// r; end N(N(x) + N(y)).
#include "residual/schemes.h"
#include "residual/siamese.h"

namespace siamese {

std::unique_ptr<Scheme> make_siamese_hybrid(const SchemeContext& c) { return std::make_unique<Siamese>(c, true); }

}  // namespace siamese
