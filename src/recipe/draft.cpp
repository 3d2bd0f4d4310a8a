#include "recipe/draft.h"

#include <algorithm>

#include "recipe/schema.h"
#include "recipe/value.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

[[noreturn]] void fail_unknown(const std::string& where, const std::string& path) {
  const std::string meant = suggest_key(path);
  fail("{}: unknown key '{}'; {}", where, printable(path),
       meant.empty() ? "`siamese recipe --keys` lists all" : fmt::format("did you mean '{}'?", meant));
}

void assign(Draft& draft, const Field& field, const YamlNode& node, int layer, const std::string& where) {
  set(field, draft.recipe, read_value(field, node, where));
  draft.places[field.path] = {layer, where};
}

/// One file being laid over the draft.
class FileLayer {
 public:
  FileLayer(Draft& draft, const Origin& origin, int layer) : draft_(draft), origin_(origin), layer_(layer) {}

  void section(const YamlNode& map, const std::string& prefix) {
    for (const YamlNode& entry : map.children) {
      const std::string path = prefix.empty() ? entry.key : prefix + "." + entry.key;
      const std::string where = origin_.at(entry.line);
      const Field* const field = find_field(path);
      const bool extends = path == "extends";  // the caller has followed it already
      if (!field && !extends && !is_section(path)) fail_unknown(where, path);
      // Only known keys get here, so a hostile file cannot make this map large.
      const auto [first, fresh] = lines_.emplace(path, entry.line);
      if (!fresh) fail("{}: duplicate key '{}', first on line {}", where, path, first->second);
      if (extends) continue;
      if (field) {
        assign(draft_, *field, entry, layer_, where);
      } else if (entry.kind == YamlNode::Kind::map) {
        section(entry, path);
      } else if (entry.kind != YamlNode::Kind::null) {  // empty: all its keys are commented out
        fail("{}: '{}' is a section: its keys stand indented below it", where, path);
      }
    }
  }

 private:
  Draft& draft_;
  const Origin& origin_;
  const int layer_;
  std::map<std::string, int> lines_;
};

/// Text that is not marked as a list or quoted is taken as it is: paths may hold `: `, ` #`, `*` and the like.
YamlNode override_value(std::string_view text, const Origin& origin) {
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());
  text.remove_prefix(begin);
  text = text.substr(0, text.find_last_not_of(' ') + 1);
  if (text.starts_with('[') || text.starts_with('"') || text.starts_with('\'')) return read_yaml(text, origin);
  return {.kind = YamlNode::Kind::scalar, .text = std::string(text)};
}

}  // namespace

void apply_file(Draft& draft, const YamlNode& root, const Origin& origin, int layer) {
  if (root.kind == YamlNode::Kind::null) return;  // nothing but comments: every default
  if (root.kind != YamlNode::Kind::map) fail("{}: a recipe holds `key: value` lines", origin.at(root.line));
  FileLayer(draft, origin, layer).section(root, "");
}

void apply_overrides(Draft& draft, const std::vector<std::string>& overrides, int layer) {
  for (const std::string& text : overrides) {
    const Origin origin{.name = "--set " + printable(text), .lines = false};
    const size_t equals = text.find('=');
    if (equals == std::string::npos) fail("{}: expected key=value, as in --set train.lr=1e-3", origin.name);
    const std::string path = text.substr(0, equals);
    const Field* const field = find_field(path);
    if (!field && path == "extends") fail("{}: extends stands in a file; name that recipe instead", origin.name);
    if (!field && is_section(path)) fail("{}: '{}' is a section; set its keys one by one", origin.name, path);
    if (!field) fail_unknown(origin.name, path);
    assign(draft, *field, override_value(std::string_view(text).substr(equals + 1), origin), layer, origin.name);
  }
}

}  // namespace siamese
