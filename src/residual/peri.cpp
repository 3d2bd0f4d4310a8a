// peri: as sandwich, and the embedding is normed; end N(x).
#include <ATen/ATen.h>

#include "residual/sandwich.h"
#include "residual/schemes.h"

namespace siamese {
namespace {

class Peri final : public Sandwich {
 public:
  explicit Peri(const SchemeContext& c) : Sandwich(c), embedding_(c.norm("emb_norm")) {}
  Streams start(const at::Tensor& embedding) const override { return Sandwich::start(normed(embedding, embedding_)); }

 private:
  Norm embedding_;
};

}  // namespace

std::unique_ptr<Scheme> make_peri(const SchemeContext& c) { return std::make_unique<Peri>(c); }

}  // namespace siamese
