#include "recipe/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "util/error.h"
#include "util/text.h"

namespace siamese {
namespace {

using Kind = YamlNode::Kind;

std::string describe(const YamlNode& node) {
  if (node.kind == Kind::null) return "empty";
  if (node.kind == Kind::list) return "a list";
  if (node.kind == Kind::map) return "a section";
  return fmt::format(fmt::runtime(node.quoted ? "the text \"{}\"" : "'{}'"), printable(node.text));
}

/// A field and where it is being set, for one-line complaints.
struct Reading {
  const Field& field;
  const std::string& where;

  [[noreturn]] void refuse(std::string_view wanted, const YamlNode& node, std::string_view hint = "") const {
    fail("{}: {} must be {}, not {}{}", where, field.path, wanted, describe(node), hint);
  }
};

/// A plain decimal number, nothing before or after it. Hexadecimal, 1_000, .inf and .nan are none.
template <class Number>
bool parse_number(const YamlNode& node, Number& number) {
  if (node.kind != Kind::scalar || node.quoted) return false;
  std::string_view text = node.text;
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(static_cast<double>(number));
}

void require_range(const Reading& reading, const YamlNode& node, double number) {
  const Range& range = reading.field.range;
  const bool high_enough = range.above_low ? number > range.low : number >= range.low;
  const bool low_enough = range.below_high ? number < range.high : number <= range.high;
  if (!high_enough || !low_enough) reading.refuse(range_text(range), node);
}

int64_t read_int(const Reading& reading, const YamlNode& node) {
  int64_t number = 0;
  if (!parse_number(node, number)) reading.refuse("a whole number", node);
  require_range(reading, node, static_cast<double>(number));
  return number;
}

double read_float(const Reading& reading, const YamlNode& node) {
  double number = 0;
  if (!parse_number(node, number)) reading.refuse("a number", node);
  require_range(reading, node, number);
  return number;
}

bool read_bool(const Reading& reading, const YamlNode& node) {
  const bool plain = node.kind == Kind::scalar && !node.quoted;
  if (plain && (node.text == "true" || node.text == "True" || node.text == "TRUE")) return true;
  if (plain && (node.text == "false" || node.text == "False" || node.text == "FALSE")) return false;
  reading.refuse("true or false", node);
}

std::string read_text(const Reading& reading, const YamlNode& node) {
  if (node.kind != Kind::scalar) reading.refuse("a text", node);
  if (printable(node.text, std::numeric_limits<size_t>::max()) != node.text) {
    reading.refuse("free of control characters", node);
  }
  const std::vector<std::string>& words = reading.field.words;
  if (words.empty() || std::find(words.begin(), words.end(), node.text) != words.end()) return node.text;
  const std::string meant = nearest(node.text, words);
  reading.refuse((words.size() > 1 ? "one of " : "") + join(words, ", "), node,
                 meant.empty() ? "" : fmt::format("; did you mean '{}'?", meant));
}

/// One name stands for a list of one, and "" for none.
std::vector<std::string> read_list(const Reading& reading, const YamlNode& node) {
  if (node.kind == Kind::scalar && node.text.empty()) return {};
  if (node.kind == Kind::scalar) return {read_text(reading, node)};
  if (node.kind != Kind::list) reading.refuse("a text or a list of texts", node);
  std::vector<std::string> items;
  for (const YamlNode& item : node.children) {
    if (item.kind != Kind::scalar || item.text.empty()) reading.refuse("a list of texts", item);
    items.push_back(read_text(reading, item));
  }
  return items;
}

/// Quotes what YAML would read as something else. Control characters never get in (`read_text`), so none is escaped.
std::string write_text(const std::string& text) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr std::string_view others = "0123456789_-./";
  constexpr std::array nulls = {"null", "Null", "NULL"};
  const auto plain = [&](char c) { return letters.find(c) != letters.npos || others.find(c) != others.npos; };
  const bool word = !text.empty() && (letters.find(text[0]) != letters.npos || text[0] == '/');
  const bool null = std::find(nulls.begin(), nulls.end(), text) != nulls.end();
  if (word && !null && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

struct Writer {
  std::string operator()(int64_t number) const { return fmt::format("{}", number); }
  std::string operator()(double number) const { return fmt::format("{}", number); }  // shortest that reads back
  std::string operator()(bool on) const { return on ? "true" : "false"; }
  std::string operator()(const std::string& text) const { return write_text(text); }
  std::string operator()(const std::vector<std::string>& items) const {
    std::vector<std::string> written;
    for (const std::string& item : items) written.push_back(write_text(item));
    return "[" + join(written, ", ") + "]";
  }
};

}  // namespace

FieldValue read_value(const Field& field, const YamlNode& node, const std::string& where) {
  struct Reader {
    const Reading reading;
    const YamlNode& node;
    FieldValue operator()(int64_t) const { return read_int(reading, node); }
    FieldValue operator()(double) const { return read_float(reading, node); }
    FieldValue operator()(bool) const { return read_bool(reading, node); }
    FieldValue operator()(const std::string&) const { return read_text(reading, node); }
    FieldValue operator()(const std::vector<std::string>&) const { return read_list(reading, node); }
  };
  return std::visit(Reader{{field, where}, node}, default_of(field));
}

std::string write_value(const FieldValue& value) { return std::visit(Writer{}, value); }

std::string type_name(const Field& field) {
  constexpr std::array names = {"int", "float", "bool", "text", "list"};  // in the order of FieldValue
  static_assert(names.size() == std::variant_size_v<FieldValue>);
  return names[default_of(field).index()];
}

std::string range_text(const Range& range) {
  const bool low = std::isfinite(range.low), high = std::isfinite(range.high);
  // Digits enough for 2^32: fmt's shortest form would be 4.294967295e+09.
  if (low && high && !range.above_low && !range.below_high) {
    return fmt::format("between {:.15g} and {:.15g}", range.low, range.high);
  }
  std::vector<std::string> parts;
  if (low) parts.push_back(fmt::format("{} {:.15g}", range.above_low ? "above" : "at least", range.low));
  if (high) parts.push_back(fmt::format("{} {:.15g}", range.below_high ? "below" : "at most", range.high));
  return join(parts, " and ");
}

}  // namespace siamese
