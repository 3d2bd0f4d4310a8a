// YAML text as a small tree that remembers its lines. The only file of the project that knows yaml-cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace siamese {

/// What a message calls the text: a file with line numbers, or an override without.
struct Origin {
  std::string name;
  bool lines = true;

  std::string at(int line) const;
};

struct YamlNode {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string key = {};   // of an entry of a map
  std::string text = {};  // of a scalar
  bool quoted = false;    // "5" is a text, 5 a number
  int line = 1;           // of the key where there is one
  std::vector<YamlNode> children = {};
};

/// Throws Error ("file:line:column: …") on anything that is not one plain YAML document: bad syntax, tags, anchors
/// and aliases, several documents, text over 1 MiB, nesting no recipe needs.
YamlNode read_yaml(std::string_view text, const Origin& origin);

}  // namespace siamese
