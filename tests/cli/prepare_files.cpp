// Files that are wrong in one way each.
#include <cstdint>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "bad_input.h"

namespace siamese::test {
namespace {

using nlohmann::json;

std::string ids(int count, int width, int modulus) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    const int id = i % modulus;
    for (int b = 0; b < width; ++b) bytes += static_cast<char>((id >> (8 * b)) & 0xff);
  }
  return bytes;
}

std::string text(size_t size) {
  const std::string line = "Mira has seven green apples; she gives two of them away.\n";
  std::string all;
  while (all.size() < size) all += line;
  return all.substr(0, size);
}

struct Golden {
  json header;
  std::string data;

  std::string bytes() const {
    const std::string head = header.dump();
    const uint64_t length = head.size();
    return std::string(reinterpret_cast<const char*>(&length), sizeof length) + head + data;
  }
  /// A key of the model's own configuration, which is JSON inside a JSON string.
  void configure(const char* key, const json& value) {
    json config = json::parse(header["__metadata__"]["config"].get<std::string>());
    config[key] = value;
    header["__metadata__"]["config"] = config.dump();
  }
};

Golden read_golden(const std::string& bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return {json::parse(bytes.substr(sizeof length, length)), bytes.substr(sizeof length + length)};
}

}  // namespace

void prepare_recipes(const std::string& folder) {
  const auto put = [&](const char* name, const std::string& content) { write(folder + "/" + name, content); };
  put("open_bracket.yaml", "train: [1, 2\n");
  put("prose.yaml", "this is not a recipe\n");
  put("unknown_key.yaml", "train:\n  wibble_wobble: 1\n");
  put("misspelt.yaml", "model:\n  n_layer: 2\n");
  put("wrong_type.yaml", "train:\n  steps: many\n");
  put("negative.yaml", "train:\n  lr: -1\n");
  put("heads.yaml", "model:\n  d_model: 30\n  n_heads: 4\n");
  put("both.yaml", "data:\n  text: a.txt\n  tokens: [b.bin]\n");
  put("duplicate.yaml", "train:\n  lr: 1\n  lr: 2\n");
  put("anchor.yaml", "train: &t\n  lr: 1\n");
  put("section.yaml", "train: 3\n");
  put("two_documents.yaml", "name: a\n---\nname: b\n");
  put("scheme.yaml", "model:\n  scheme: siamesse\n");
  put("owner.yaml", "model:\n  scheme: pre\n  streams: 3\n");
  put("name.yaml", "name: a/b\n");
  put("circle_a.yaml", "extends: circle_b\n");
  put("circle_b.yaml", "extends: circle_a\n");
  put("orphan.yaml", "extends: nowhere\n");
  put("tabs.yaml", "train:\n\tlr: 1\n");
  put("deep.yaml", "name: " + std::string(3000, '[') + std::string(3000, ']') + "\n");
  put("large.yaml", "# " + std::string((1 << 20) + 10, 'x') + "\n");
  std::string binary;
  for (int i = 0; i < 4096; ++i) binary += static_cast<char>((i * 7919 + 131) >> 3);
  put("binary.yaml", binary);
  put("utf16.yaml", std::string("\xff\xfen\0a\0m\0e\0:\0 \0x\0\n\0", 18));
}

void prepare_data(const std::string& folder) {
  const auto put = [&](const char* name, const std::string& content) { write(folder + "/" + name, content); };
  put("good.u16", ids(2000, 2, 64));
  put("odd.u16", ids(2000, 2, 64) + "x");
  put("cut.u32", ids(2000, 4, 64) + "xy");
  put("small.u16", ids(20, 2, 64));
  put("beyond.u16", ids(2000, 2, 70));
  put("numpy.npy", std::string("\x93NUMPY\x01\x00", 8) + ids(2000, 2, 64));
  put("empty", "");
  put("small.txt", text(40));
  put("good.txt", text(4000));
  put("nul.txt", text(2000) + std::string(1, '\0') + text(2000));
  put("latin1.txt", text(2000) + "caf\xe9 " + text(2000));
}

void prepare_checkpoints(const std::string& folder, const std::string& whole) {
  const auto damaged = [&](const char* name) {
    fs::copy(whole, folder + "/" + name);
    return folder + "/" + name + "/manifest.json";
  };
  const std::string manifest = read(whole + "/manifest.json");
  fs::remove(damaged("no_manifest"));
  write(damaged("empty_manifest"), "");
  write(damaged("cut_manifest"), manifest.substr(0, manifest.size() / 2));
  std::string altered = manifest;
  altered.replace(altered.find("\"step\": 4"), 9, "\"step\": 5");
  write(damaged("altered_manifest"), altered);
  write(damaged("list_manifest"), "[1, 2, 3]");
  write(damaged("binary_manifest"), std::string("\x00\xff\xfe{", 4) + manifest);
  write(damaged("unhashed_manifest"), "{\"format\": 1}");
  damaged("no_weights");
  fs::remove(folder + "/no_weights/model.safetensors");
  damaged("swapped");
  fs::copy_file(whole + "/ema.safetensors", folder + "/swapped/model.safetensors",
                fs::copy_options::overwrite_existing);
}

void prepare_golden(const std::string& folder) {
  const std::string whole = read(SIAMESE_SOURCE_DIR "/tests/golden/pre.safetensors");
  const auto put = [&](const char* name, const std::string& bytes) { write(folder + "/" + name, bytes); };
  const auto put_changed = [&](const char* name, const std::function<void(Golden&)>& change) {
    Golden golden = read_golden(whole);
    change(golden);
    put(name, golden.bytes());
  };
  put("empty", "");
  put("short", whole.substr(0, 5));
  put("cut", whole.substr(0, whole.size() / 2));
  put("cut_header", whole.substr(0, 100));
  put("huge_header", std::string(8, '\x7f') + whole.substr(8));
  put("long_header", std::string("\x00\x00\x00\x04\x00\x00\x00\x00", 8) + whole.substr(8));
  std::string broken = whole;
  broken[broken.find(':', 8)] = '!';
  put("broken_json", broken);
  put_changed("no_metadata", [](Golden& g) { g.header.erase("__metadata__"); });
  put_changed("no_config", [](Golden& g) { g.header["__metadata__"].erase("config"); });
  put_changed("broken_config", [](Golden& g) { g.header["__metadata__"]["config"] = "{\"d_model\": "; });
  put_changed("unknown_model", [](Golden& g) { g.header["__metadata__"]["model"] = "perceiver"; });
  put_changed("unknown_scheme", [](Golden& g) { g.configure("scheme", "sidewards"); });
  put_changed("wrong_shape", [](Golden& g) { g.configure("mlp_hidden_size", 64); });
  put_changed("no_heads", [](Golden& g) { g.configure("n_heads", 0); });
  put_changed("endless", [](Golden& g) { g.configure("n_layers", int64_t{1} << 40); });
  put_changed("id_beyond", [](Golden& g) {
    const int64_t id = 64;  // the vocabulary's size: one too far
    const size_t at = g.header["input.ids"]["data_offsets"][0].get<size_t>();
    std::memcpy(g.data.data() + at, &id, sizeof id);
  });
  put_changed("flat_ids", [](Golden& g) { g.header["input.ids"]["shape"] = {56}; });
  put_changed("no_output", [](Golden& g) {
    g.header["output.logitz"] = g.header["output.logits"];
    g.header.erase("output.logits");
  });
}

}  // namespace siamese::test
