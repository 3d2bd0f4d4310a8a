#include "ops/product_list.h"

#include <sstream>

namespace siamese {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

std::string head_line(const std::string& origin) { return "products of " + origin; }

bool from_hex(const std::string& text, ProductAlgorithm* algorithm) {
  if (text.size() != 2 * algorithm->size() || text.find_first_not_of(kDigits) != std::string::npos) return false;
  for (size_t i = 0; i < algorithm->size(); ++i)
    (*algorithm)[i] = static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return true;
}

}  // namespace

std::string to_text(const ProductList& products, const std::string& origin) {
  std::string text = head_line(origin) + '\n';
  for (const auto& [key, algorithm] : products) {
    text += key + ' ';
    for (const unsigned char byte : algorithm) text += {kDigits[byte / 16], kDigits[byte % 16]};
    text += '\n';
  }
  return text;
}

ProductList products_from(const std::string& text, const std::string& origin) {
  ProductList products;
  std::istringstream in(text);
  std::string line;
  if (!std::getline(in, line) || line != head_line(origin)) return products;
  while (std::getline(in, line)) {
    const size_t cut = line.rfind(' ');
    ProductAlgorithm algorithm;
    if (cut != std::string::npos && from_hex(line.substr(cut + 1), &algorithm))
      products[line.substr(0, cut)] = algorithm;
  }
  return products;
}

}  // namespace siamese
