// Which class of a model a folder is: by name, by number, or refused; and what evaluation could not read.
#include "image_loading.h"
#include "image_set_files.h"
#include "images/numbered_set.h"
#include "images/validation_batch.h"

namespace siamese {
namespace {

/// Class folders with one picture each.
std::shared_ptr<const ImageSet> folders(const ImageFiles& files, const std::vector<std::string>& names) {
  for (const std::string& name : names) files.picture(name + "/x.png", 7);
  return make_folder_set(files.root());
}

/// Label of each folder, by its name, as a model sees it.
std::map<std::string, int64_t> labels_of(const std::vector<std::string>& names, const ModelClasses& model) {
  const ImageFiles files;
  const auto set = classes_of_model(folders(files, names), model, "--data F");
  EXPECT_EQ(set->class_names().size(), static_cast<size_t>(model.count));
  std::map<std::string, int64_t> labels;
  for (int64_t i = 0; i < set->size(); ++i)
    labels[std::filesystem::path(set->name(i)).parent_path().filename().string()] = set->label(i);
  return labels;
}

std::string refusal(const std::vector<std::string>& names, const ModelClasses& model) {
  const ImageFiles files;
  return error_of([&] { classes_of_model(folders(files, names), model, "--data F"); });
}

using Labels = std::map<std::string, int64_t>;

// As training sees folders 0 … 11: in the order of their names.
const ModelClasses kUnpadded{12, {"0", "1", "10", "11", "2", "3", "4", "5", "6", "7", "8", "9"}};
const ModelClasses kOneBased{4, {"001", "002", "003", "004"}};
const ModelClasses kAnimals{3, {"bird", "cat", "dog"}};

TEST(ModelClasses, NumbersThatAreNamesAreNames) {
  EXPECT_EQ(labels_of({"2", "10", "9"}, kUnpadded), (Labels{{"2", 4}, {"10", 2}, {"9", 11}}));
  EXPECT_EQ(labels_of(kUnpadded.names, kUnpadded).at("11"), 3);
  EXPECT_EQ(labels_of({"001", "003"}, kOneBased), (Labels{{"001", 0}, {"003", 2}}));
}

TEST(ModelClasses, NumbersAreLabelsWhereNoNameIsThere) {
  EXPECT_EQ(labels_of({"0", "2"}, kAnimals), (Labels{{"0", 0}, {"2", 2}}));
  EXPECT_EQ(labels_of({"00", "02"}, kAnimals), (Labels{{"00", 0}, {"02", 2}}));
  const ImageFiles files;
  const auto set = classes_of_model(folders(files, {"1"}), kAnimals, "--data F");
  EXPECT_EQ(set->class_names(), kAnimals.names);
  expect_says(set->describe(), {"folders taken for class numbers"});
}

TEST(ModelClasses, OthersAreRefusedByName) {
  expect_says(refusal({"bird", "hound"}, kAnimals), {"--data F", "'hound'", "bird, cat, dog"});
  expect_says(refusal({"bird", "2"}, kAnimals), {"'2' is none"});  // a name is there: 2 is no number then
  expect_says(refusal({"0", "3"}, kAnimals), {"'3'", "0 … 2"});
  expect_says(refusal({"12"}, kUnpadded), {"'12'", "0, 1, 10, 11, 2, … (12)"});
}

TEST(ModelClasses, LabelsWithoutANameAreNumbers) {
  const ModelClasses more{5, kAnimals.names};
  EXPECT_EQ(more.all_names(), (std::vector<std::string>{"bird", "cat", "dog", "3", "4"}));
  EXPECT_EQ((ModelClasses{3, {"2"}}.all_names()), (std::vector<std::string>{"2", "1", "class 2"}));
  EXPECT_EQ(labels_of({"cat", "4"}, more), (Labels{{"cat", 1}, {"4", 4}}));
  EXPECT_EQ(labels_of({"0", "4"}, more), (Labels{{"0", 0}, {"4", 4}})) << "what sample --singles writes";
}

TEST(ModelClasses, WithoutNamesTheWayIsTold) {
  EXPECT_EQ(labels_of({"0", "2"}, {3, {}}), (Labels{{"0", 0}, {"2", 2}}));
  EXPECT_EQ(labels_of({"a", "b", "c"}, {3, {}}), (Labels{{"a", 0}, {"b", 1}, {"c", 2}}));
  EXPECT_EQ(labels_of({"1", "2", "3"}, {3, {}}), (Labels{{"1", 0}, {"2", 1}, {"3", 2}}));
  expect_says(refusal({"a", "b"}, {3, {}}), {"has 2 class folders, the model knows 3 classes"});
  const ImageFiles files;
  expect_says(classes_of_model(folders(files, {"1"}), {3, {}}, "")->describe(), {"holds no class names"});
}

TEST(ModelClasses, AnyBytesMakeAName) {
  EXPECT_EQ(class_name("caf\xe9"), "caf\\xe9");
  EXPECT_EQ(labels_of({"caf\xe9"}, {2, {"bar", class_name("caf\xe9")}}), (Labels{{"caf\xe9", 1}}));
}

TEST(UnreadPictures, AreCountedOnceAndTheFirstNamed) {
  std::set<int64_t> bad;
  for (int64_t i = 3; i < 40; i += 3) bad.insert(i);  // thirteen
  const auto unread = std::make_shared<UnreadPictures>();
  const auto set = watched(std::make_shared<ValueSet>(40, bad), unread);
  EXPECT_EQ(unread->describe(), "");
  AugmentConfig augment;
  augment.normalize = "half";
  for (int round = 0; round < 2; ++round)
    EXPECT_EQ(validation_batch(*set, Transform(augment, 6, 1), 0, 40, 6, 1, 5, true).labels.size(), 27u);
  EXPECT_EQ(unread->count(), 13);
  const std::string text = unread->describe("validation image");
  expect_says(text,
              {"13 validation images could not be read and were left out: picture_3, picture_6", "picture_30, …"});
  EXPECT_EQ(text.find("picture_33"), std::string::npos);
}

}  // namespace
}  // namespace siamese
