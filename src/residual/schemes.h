// One maker a scheme; the name in the recipe is the file's name.
#pragma once

#include "residual/scheme.h"

namespace siamese {

std::unique_ptr<Scheme> make_pre(const SchemeContext& c);
std::unique_ptr<Scheme> make_post(const SchemeContext& c);
std::unique_ptr<Scheme> make_deepnorm(const SchemeContext& c);
std::unique_ptr<Scheme> make_keel(const SchemeContext& c);
std::unique_ptr<Scheme> make_mix_ln(const SchemeContext& c);
std::unique_ptr<Scheme> make_ln_scaling(const SchemeContext& c);
std::unique_ptr<Scheme> make_reordered(const SchemeContext& c);
std::unique_ptr<Scheme> make_sandwich(const SchemeContext& c);
std::unique_ptr<Scheme> make_peri(const SchemeContext& c);
std::unique_ptr<Scheme> make_hybrid(const SchemeContext& c);
std::unique_ptr<Scheme> make_hybrid_star(const SchemeContext& c);
std::unique_ptr<Scheme> make_span(const SchemeContext& c);
std::unique_ptr<Scheme> make_resi_dual(const SchemeContext& c);
std::unique_ptr<Scheme> make_hc_static(const SchemeContext& c);
std::unique_ptr<Scheme> make_hc_dynamic(const SchemeContext& c);
std::unique_ptr<Scheme> make_mhc(const SchemeContext& c);
std::unique_ptr<Scheme> make_siamese(const SchemeContext& c);
std::unique_ptr<Scheme> make_siamese_hybrid(const SchemeContext& c);

}  // namespace siamese
