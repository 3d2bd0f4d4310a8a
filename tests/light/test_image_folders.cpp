// Class folders: what counts as an image, how they are split, what is refused.
#include <algorithm>
#include <set>

#include "image_set_files.h"

namespace siamese {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_of(const ImageSet& set) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < set.size(); ++i) names.push_back(fs::path(set.name(i)).filename().string());
  return names;
}

TEST(FolderSet, TakesTrainAndValAsTheSplit) {
  for (const std::string val : {"val", "valid", "validation", "test"}) {
    const ImageFiles files;
    files.picture("train/dog/b.PNG", 30);
    files.picture("train/dog/deeper/c.Jpeg", 40);
    files.picture("train/cat/a.jpg", 20, 20, 14);
    files.picture(val + "/dog/x.png", 50);
    files.write("train/README.md", "");
    files.write("train/dog/Thumbs.db", "");
    files.write("train/dog/.hidden.png", "");
    const ImageSets sets = open_sets("folder", files);
    EXPECT_EQ(sets.train->class_names(), (std::vector<std::string>{"cat", "dog"}));
    EXPECT_EQ(names_of(*sets.train), (std::vector<std::string>{"a.jpg", "b.PNG", "c.Jpeg"}));
    EXPECT_EQ(sets.train->label(0), 0);
    EXPECT_EQ(sets.train->label(2), 1);
    EXPECT_EQ(sets.train->load(0).width, 20);
    EXPECT_EQ(sets.train->load(0).height, 14);
    EXPECT_EQ(sets.train->load(1), Image(12, 10, 3, 30));
    expect_says(sets.train->describe(), {"3 images of 2 classes", "README.md", "1 other files"});
    EXPECT_EQ(sets.train->decoded_bytes(0), 3 * (20 * 14 + 2 * 12 * 10));
    ASSERT_EQ(sets.validation->size(), 1);
    EXPECT_EQ(sets.validation->label(0), 1);
    EXPECT_EQ(sets.validation->class_names(), sets.train->class_names());
    EXPECT_EQ(sets.validation->load(0), Image(12, 10, 3, 50));
  }
}

TEST(FolderSet, EveryTwentiethValidatesWithoutASplit) {
  const ImageFiles files;
  for (int i = 0; i < 60; ++i) files.write(fmt::format("a/{:03}.png", i), "");
  for (int i = 0; i < 40; ++i) files.write(fmt::format("b/{:03}.png", i), "");
  const ImageSets sets = open_sets("folder", files);
  EXPECT_EQ(sets.train->size(), 95);
  ASSERT_EQ(sets.validation->size(), 5);
  int64_t of_b = 0;
  std::set<std::string> all;
  for (int64_t i = 0; i < 5; ++i) {
    of_b += sets.validation->label(i);
    all.insert(sets.validation->name(i));
  }
  for (int64_t i = 0; i < 95; ++i) all.insert(sets.train->name(i));
  EXPECT_EQ(of_b, 2);
  EXPECT_EQ(all.size(), 100u);
  // Not the same places of every class.
  const std::vector<std::string> chosen = names_of(*sets.validation);
  EXPECT_NE(std::set(chosen.begin(), chosen.end()), (std::set<std::string>{"010.png", "030.png", "050.png"}));
  // Runs with other seeds validate on the same images.
  EXPECT_EQ(names_of(*make_image_sets(image_data("folder", files.root()), 32, 99).validation), chosen);
}

TEST(FolderSet, FewImagesStillValidate) {
  const ImageFiles files;
  files.picture("a/0.png", 1);
  expect_says(error_about("folder", files), {"too few"});
  files.picture("b/1.png", 1);
  const ImageSets sets = open_sets("folder", files);
  EXPECT_EQ(sets.train->size(), 1);
  EXPECT_EQ(sets.validation->size(), 1);
}

TEST(FolderSet, ValidationFolderOfItsOwn) {
  const ImageFiles files;
  files.picture("data/a/0.png", 1);
  files.picture("data/b/0.png", 2);
  files.picture("other/b/9.png", 3);
  const DataConfig data = image_data("folder", files.at("data"), files.at("other"));
  EXPECT_EQ(make_image_sets(data, 32, 1).train->size(), 2);
  EXPECT_EQ(make_image_sets(data, 32, 1).validation->label(0), 1);
  files.picture("other/zebra/9.png", 3);
  expect_says(error_of([&] { make_image_sets(data, 32, 1); }), {"zebra", "data.validation_images", files.at("other")});
}

TEST(FolderSet, FollowsLinksToClassesAndImages) {
  const ImageFiles files;
  files.picture("real/x.png", 7);
  files.picture("data/a/0.png", 1);
  fs::create_directory_symlink(files.at("real"), files.at("data/linked"));
  fs::create_symlink(files.at("real/x.png"), files.at("data/a/link.png"));
  fs::create_directory_symlink(files.at("data"), files.at("data/a/circle"));
  const auto set = make_folder_set(files.at("data"));
  EXPECT_EQ(set->class_names(), (std::vector<std::string>{"a", "linked"}));
  EXPECT_EQ(names_of(*set), (std::vector<std::string>{"0.png", "link.png", "x.png"}));
  EXPECT_EQ(set->load(1), set->load(2));
}

TEST(FolderSet, FlatFolderIsOneClassForComparison) {
  const ImageFiles files;
  files.picture("samples/1.png", 1);
  files.picture("samples/0.png", 2);
  const auto set = make_folder_set(files.at("samples") + "/");
  EXPECT_EQ(set->class_names(), std::vector<std::string>{"samples"});
  EXPECT_EQ(names_of(*set), (std::vector<std::string>{"0.png", "1.png"}));
  EXPECT_EQ(set->load(0), Image(12, 10, 3, 2));
  expect_says(error_about("folder", files, "/samples"), {"one folder a class, not side by side"});
}

TEST(FolderSet, RefusesWhatHoldsNoImages) {
  const ImageFiles files;
  expect_says(error_about("folder", files), {files.root(), "no class folders"});
  expect_says(error_about("folder", files, "/nowhere"), {"data.images", "does not exist"});
  files.write("cats/readme.txt", "");
  expect_says(error_about("folder", files), {"/cats", "no JPEG or PNG"});
  expect_says(error_about("folder", files, "/cats/readme.txt"), {"is a file"});
  expect_says(error_about("latents", files), {"data.source"});
  expect_says(error_of([] { make_image_sets(image_data("idx", ""), 32, 1); }), {"data.images"});
}

TEST(FolderSet, DamagedImagesAreNamedWhenRead) {
  const ImageFiles files;
  const std::string path = files.write("a/0.png", "not a picture");
  const auto set = make_folder_set(files.root());
  expect_says(error_of([&] { set->load(0); }), {path});
  EXPECT_EQ(set->decoded_bytes(0), 0);
  EXPECT_NE(error_of([&] { set->load(1); }), "");
}

}  // namespace
}  // namespace siamese
