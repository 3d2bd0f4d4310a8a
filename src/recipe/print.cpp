// A recipe as YAML, and the list of all keys.
#include <algorithm>

#include "recipe/recipe.h"
#include "recipe/schema.h"
#include "recipe/value.h"
#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

constexpr size_t kShortList = 5;  // that many alternatives fit behind a value

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> parts;
  for (size_t dot; (dot = path.find('.')) != std::string_view::npos; path.remove_prefix(dot + 1)) {
    parts.emplace_back(path.substr(0, dot));
  }
  parts.emplace_back(path);
  return parts;
}

bool has_effect(const Field& field, const Recipe& recipe) {
  if (field.owner.empty()) return true;
  const std::string owner = std::get<std::string>(get(*find_field(field.owner), recipe));
  return std::find(field.owners.begin(), field.owners.end(), owner) != field.owners.end();
}

/// What the value alone does not say: that it is not used, the alternatives, or what a 0 stands for.
std::string comment(const Field& field, const Recipe& recipe) {
  if (!has_effect(field, recipe)) return fmt::format("  # only {}", join(field.owners, ", "));
  if (field.words.size() > 1 && field.words.size() <= kShortList) return "  # " + join(field.words, " | ");
  const bool stand_in = !field.unset.empty() && get(field, recipe) == default_of(field);
  return stand_in ? fmt::format("  # {}", field.unset) : std::string();
}

std::string allowed(const Field& field) {
  std::vector<std::string> parts;
  if (!field.words.empty()) parts.push_back(join(field.words, " | "));
  if (const std::string range = range_text(field.range); !range.empty()) parts.push_back(range);
  if (!field.unset.empty()) parts.push_back(fmt::format("{}: {}", write_value(default_of(field)), field.unset));
  if (!field.owner.empty()) parts.push_back(fmt::format("only {}", join(field.owners, ", ")));
  return parts.empty() ? std::string() : fmt::format(" [{}]", join(parts, "; "));
}

}  // namespace

std::string to_yaml(const Recipe& recipe) {
  std::string out;
  std::vector<std::string> open;  // the sections the last line stands in
  for (const Field& field : fields()) {
    std::vector<std::string> sections = split(field.path);
    const std::string key = sections.back();
    sections.pop_back();
    const size_t kept = static_cast<size_t>(
        std::mismatch(open.begin(), open.end(), sections.begin(), sections.end()).first - open.begin());
    for (size_t i = kept; i < sections.size(); ++i) {
      out += fmt::format("{}{:{}}{}:\n", i == 0 ? "\n" : "", "", 2 * i, sections[i]);
    }
    open = sections;
    const std::string value = write_value(get(field, recipe));
    out += fmt::format("{:{}}{}: {}{}\n", "", 2 * sections.size(), key, value, comment(field, recipe));
  }
  return out;
}

std::string recipe_keys() {
  std::string out = fmt::format("{:<28} {:<5} {:<14} {}\n", "key", "type", "default", "meaning [allowed]");
  for (const Field& field : fields()) {
    out += fmt::format("{:<28} {:<5} {:<14} {}{}\n", field.path, type_name(field), write_value(default_of(field)),
                       field.help, allowed(field));
  }
  return out;
}

}  // namespace siamese
