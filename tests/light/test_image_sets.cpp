// CIFAR-10 and IDX files, whole and damaged; the drawn shapes.
#include <algorithm>
#include <set>

#include "image_set_files.h"
#include "images/idx.h"

namespace siamese {
namespace {

namespace fs = std::filesystem;

TEST(CifarSet, ReadsRecordsOfAllFiles) {
  for (const std::string below : {"", "cifar-10-batches-bin/"}) {
    const ImageFiles files;
    write_cifar(files, below);
    const ImageSets sets = open_sets("cifar10", files);
    ASSERT_EQ(sets.train->size(), 10);
    ASSERT_EQ(sets.validation->size(), 3);
    EXPECT_EQ(sets.train->label(4), 3);
    EXPECT_EQ(sets.train->label(5), 0);
    const Image image = sets.train->load(9);
    EXPECT_EQ((std::vector<int>{image.width, image.height, image.channels}), (std::vector<int>{32, 32, 3}));
    EXPECT_EQ(image.at(31, 31)[0], 53);
    EXPECT_EQ(image.at(31, 31)[1], 54);
    EXPECT_EQ(image.at(0, 0)[2], 55);
    EXPECT_EQ(sets.train->name(9), files.at(below + "data_batch_5.bin") + ": record 1");
    EXPECT_EQ(sets.validation->label(2), 7);
    EXPECT_EQ(sets.train->class_names()[3], "cat");
    EXPECT_NE(error_of([&] { sets.train->load(10); }), "");
  }
}

TEST(CifarSet, ReadsClassNames) {
  const ImageFiles files;
  write_cifar(files);
  files.write("batches.meta.txt", "zero\r\n1\n2\n3\n4\n5\n6\n7\n8\nnine\n\n");
  EXPECT_EQ(open_sets("cifar10", files).validation->class_names()[0], "zero");
  files.write("batches.meta.txt", "zero\n");
  expect_says(error_about("cifar10", files), {"batches.meta.txt", "expected 10"});
}

TEST(CifarSet, RefusesDamage) {
  const ImageFiles files;
  write_cifar(files);
  files.write("data_batch_4.bin", cifar_record(1, 1) + cifar_record(2, 2).substr(0, 3000));
  expect_says(error_about("cifar10", files), {"data_batch_4.bin", "6073 bytes", "number 0"});
  files.write("data_batch_4.bin", "");
  expect_says(error_about("cifar10", files), {"data_batch_4.bin"});
  files.write("data_batch_4.bin", cifar_record(1, 1) + cifar_record(10, 2));
  expect_says(error_about("cifar10", files), {"data_batch_4.bin: record 1", "label 10"});
  fs::remove(files.at("data_batch_4.bin"));
  expect_says(error_about("cifar10", files), {"data_batch_4.bin", "data.images"});
}

void write_idx(const ImageFiles& files, const std::string& folder, char separator, bool packed) {
  const auto put = [&](const std::string& name, const std::string& content) {
    const size_t at = name.rfind("-idx");
    std::string renamed = name;
    renamed[at] = separator;
    files.write(folder + renamed + (packed ? ".gz" : ""), packed ? gzipped(content) : content);
  };
  put("train-images-idx3-ubyte", idx_images(3));
  put("train-labels-idx1-ubyte", idx_labels({0, 9, 4}));
  put("t10k-images-idx3-ubyte", idx_images(1));
  put("t10k-labels-idx1-ubyte", idx_labels({5}));
}

TEST(IdxSet, ReadsPlainAndPackedFiles) {
  for (const bool packed : {false, true}) {
    for (const char separator : {'-', '.'}) {
      const ImageFiles files;
      write_idx(files, "fashion-mnist/", separator, packed);
      write_idx(files, "mnist/", separator, packed);
      const ImageSets sets = make_image_sets(image_data("idx", files.at("mnist/")), 28, 1);
      ASSERT_EQ(sets.train->size(), 3);
      EXPECT_EQ(sets.validation->size(), 1);
      EXPECT_EQ(sets.train->label(1), 9);
      EXPECT_EQ(sets.validation->label(0), 5);
      const Image image = sets.train->load(2);
      EXPECT_EQ((std::vector<int>{image.width, image.height, image.channels}), (std::vector<int>{3, 2, 1}));
      EXPECT_EQ(image.pixels, (std::vector<uint8_t>{32, 33, 34, 35, 36, 37}));
      EXPECT_EQ(sets.train->class_names()[7], "7");
      EXPECT_EQ(sets.train->decoded_bytes(0), 18);
      EXPECT_EQ(make_image_sets(image_data("idx", files.at("fashion-mnist")), 28, 1).train->class_names()[9],
                "ankle boot");
    }
  }
}

TEST(IdxSet, RefusesDamage) {
  const ImageFiles files;
  write_idx(files, "", '-', false);
  const auto with = [&](const std::string& name, const std::string& content) {
    files.write(name, content);
    const std::string message = error_about("idx", files);
    write_idx(files, "", '-', false);
    expect_says(message, {files.at(name)});
    return message;
  };
  const std::string images = "train-images-idx3-ubyte", labels = "train-labels-idx1-ubyte";
  expect_says(with(images, idx_images(3).substr(0, 33)), {"33 bytes, but its header announces 34"});
  expect_says(with(images, idx_images(3) + "x"), {"announces 34"});
  expect_says(with(images, idx_images(3).substr(0, 15)), {"too few"});
  expect_says(with(images, idx_labels("abc") + "12345678"), {"0x00000801, expected 0x00000803"});
  expect_says(with(images, idx_images(0)), {"size 0 of dimension 0"});
  const std::string huge = big_endian(0x3FFFFFFF);
  expect_says(with(images, big_endian(0x803) + huge + huge + huge), {"too large"});
  expect_says(with(images, big_endian(0x803) + big_endian(0xFFFFFFFF) + huge + huge), {"not between"});
  expect_says(with(labels, idx_labels({1, 2})), {"2 labels for the 3 images"});
  expect_says(with(labels, idx_labels({1, 2, 10})), {"record 2: label 10"});
  fs::remove(files.at(labels));
  expect_says(error_about("idx", files), {"train-labels-idx1-ubyte", "data.images"});
}

TEST(IdxSet, RefusesDamagedGzip) {
  const auto parse = [](const std::string& bytes) {
    return error_of([&] { parse_idx({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, 3, "file"); });
  };
  const std::string packed = gzipped(idx_images(200, 28, 28));
  EXPECT_EQ(parse(packed), "");
  for (const size_t length : {size_t{3}, packed.size() / 2, packed.size() - 1}) {
    expect_says(parse(packed.substr(0, length)), {"ends early"});
  }
  std::string damaged = packed;
  damaged[damaged.size() - 6] ^= 1;  // of the checksum
  expect_says(parse(damaged), {"damaged"});
  expect_says(parse(packed + "rest"), {"file: ", "damaged"});
  // 100 MB of zeros in 100 kB: refused before they are unpacked.
  expect_says(parse(gzipped(idx_images(1) + std::string(100'000'000, '\0'))), {"more than the 22 bytes"});
  // Two members are one file.
  const std::string content = idx_images(4);
  EXPECT_EQ(parse(gzipped(content.substr(0, 20)) + gzipped(content.substr(20))), "");
}

TEST(ShapesSet, ArePureFunctionsOfSeedAndIndex) {
  DataConfig data = image_data("shapes", "");
  data.shapes = 200;
  const ImageSets sets = make_image_sets(data, 24, 1), again = make_image_sets(data, 24, 1);
  const ImageSets other = make_image_sets(data, 24, 2);
  ASSERT_EQ(sets.train->size(), 200);
  EXPECT_EQ(sets.validation->size(), 20);
  EXPECT_EQ(sets.train->class_names().size(), 10u);
  std::set<std::vector<uint8_t>> different;
  for (int64_t i = 0; i < 200; ++i) {
    const Image image = sets.train->load(i);
    EXPECT_EQ(image, again.train->load(i));
    EXPECT_NE(image, other.train->load(i));
    EXPECT_EQ(sets.train->label(i), i % 10);
    different.insert(image.pixels);
    if (i < 20) different.insert(sets.validation->load(i).pixels);
  }
  EXPECT_EQ(different.size(), 220u);
  EXPECT_EQ(sets.train->decoded_bytes(0), 200 * 24 * 24 * 3);
}

// The same scene at another size: averaged to one size, the pictures agree.
TEST(ShapesSet, LookTheSameAtAnySize) {
  const DataConfig data = image_data("shapes", "");
  const ImageSets small = make_image_sets(data, 16, 3), large = make_image_sets(data, 64, 3);
  for (int64_t i = 0; i < 20; ++i) {
    const Image a = small.train->load(i), b = large.train->load(i);
    double difference = 0;
    for (int y = 0; y < 16; ++y) {
      for (int x = 0; x < 16; ++x) {
        double mean = 0;
        for (int k = 0; k < 16; ++k) mean += b.at(4 * x + k % 4, 4 * y + k / 4)[1] / 16.0;
        difference += std::abs(mean - a.at(x, y)[1]) / 256;
      }
    }
    EXPECT_LT(difference, 4) << i;
  }
}

}  // namespace
}  // namespace siamese
