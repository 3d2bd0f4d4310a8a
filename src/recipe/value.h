// One value of a recipe: from text, checked against its field, and back to text.
#pragma once

#include <string>

#include "recipe/schema.h"
#include "recipe/yaml_reader.h"

namespace siamese {

/// What `node` says about `field`; throws "<where>: train.lr must be a number, not 'fast'".
FieldValue read_value(const Field& field, const YamlNode& node, const std::string& where);

/// As YAML that `read_value` takes back without loss.
std::string write_value(const FieldValue& value);

std::string type_name(const Field& field);   // "int", "float", "bool", "text", "list"
std::string range_text(const Range& range);  // "at least 0 and below 1"; "" where everything goes

}  // namespace siamese
