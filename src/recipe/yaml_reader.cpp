#include "recipe/yaml_reader.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr size_t kMaxDepth = 8;  // a recipe needs 3; yaml-cpp recurses per level and could overflow the stack

/// Events rather than YAML::Node: the depth is bounded while parsing, keys keep their lines and duplicates are seen.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const Origin& origin) : origin_(origin) {}

  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) refuse(mark, "a second YAML document; a recipe is one");
  }
  void OnDocumentEnd() override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_anchor(mark); }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override { refuse_anchor(mark); }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { add(mark, {}); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& text) override {
    refuse_tag(mark, tag);
    if (expects_key()) {
      key_ = text;
      key_line_ = mark.line + 1;
      has_key_ = true;
      return;
    }
    add(mark, {.kind = YamlNode::Kind::scalar, .text = text, .quoted = tag == "!"});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, YamlNode::Kind::list);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(mark, tag, YamlNode::Kind::map);
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  bool expects_key() const { return !open_.empty() && open_.back()->kind == YamlNode::Kind::map && !has_key_; }

  /// Pointers to open nodes stay valid: only the innermost open node gains children.
  YamlNode* add(const YAML::Mark& mark, YamlNode node) {
    if (expects_key()) refuse(mark, "a key must be a plain word; is a bracket left open?");
    node.line = has_key_ ? key_line_ : mark.line + 1;
    node.key = has_key_ ? std::move(key_) : std::string();
    has_key_ = false;
    if (open_.empty()) return &(root_ = std::move(node));
    return &open_.back()->children.emplace_back(std::move(node));
  }

  void open(const YAML::Mark& mark, const std::string& tag, YamlNode::Kind kind) {
    refuse_tag(mark, tag);
    if (open_.size() == kMaxDepth) refuse(mark, "nested too deeply");
    open_.push_back(add(mark, {.kind = kind}));
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag != "" && tag != "?" && tag != "!") refuse(mark, "YAML tags are not used in recipes");
  }
  [[noreturn]] void refuse_anchor(const YAML::Mark& mark) const {
    refuse(mark, "YAML anchors and aliases are not used in recipes; share settings with extends:");
  }
  [[noreturn]] void refuse(const YAML::Mark& mark, std::string_view message) const {
    fail("{}: {}", origin_.at(mark.line + 1), message);
  }

  const Origin& origin_;
  YamlNode root_;
  std::vector<YamlNode*> open_;
  std::string key_;
  int key_line_ = 0;
  bool has_key_ = false;
  int documents_ = 0;
};

/// yaml-cpp takes byte 4 for the end of the file, guesses UTF-16 and replaces bad bytes: none of that silently.
void require_plain_text(std::string_view text, const Origin& origin) {
  if (text.size() > kMaxBytes) fail("{}: larger than the 1 MiB accepted here", origin.name);
  int number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    std::replace(line.begin(), line.end(), '\t', ' ');
    if (printable(line, std::numeric_limits<size_t>::max()) != line) {
      fail("{}: a control character, or bytes that are not UTF-8", origin.at(number));
    }
  }
}

}  // namespace

std::string Origin::at(int line) const { return lines ? fmt::format("{}:{}", name, line) : name; }

YamlNode read_yaml(std::string_view text, const Origin& origin) {
  require_plain_text(text, origin);
  TreeBuilder builder(origin);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    const std::string message = printable(error.msg, 200);
    if (!origin.lines || error.mark.is_null()) fail("{}: {}", origin.name, message);
    fail("{}:{}:{}: {}", origin.name, error.mark.line + 1, error.mark.column + 1, message);
  }
  return builder.take();
}

}  // namespace siamese
