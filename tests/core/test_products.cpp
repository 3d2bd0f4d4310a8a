// The algorithms of products as text, and with a run.
#include "fake_gpu.h"
#include "ops/product_list.h"
#include "tiny.h"

namespace siamese {
namespace {

ProductList some_products() {
  ProductList list;
  for (const int i : {1, 2, 250})
    for (size_t j = 0; j < 64; ++j)
      list["bf16 added in fp32 8x" + std::to_string(i) + "x64 NT"][j] = static_cast<unsigned char>(j * 31 + i);
  return list;
}

TEST(Products, TextGivesThemBack) {
  const std::string text = to_text(some_products(), "a GPU, 13");
  EXPECT_EQ(products_from(text, "a GPU, 13"), some_products());
  EXPECT_TRUE(products_from(text, "a GPU, 14").empty());
  EXPECT_TRUE(products_from(text, "another GPU, 13").empty());
  EXPECT_TRUE(products_from("", "a GPU, 13").empty());
  EXPECT_TRUE(products_from(to_text({}, "a GPU, 13"), "a GPU, 13").empty());
}

TEST(Products, DamagedLinesAreLeftOut) {
  const std::string text = to_text(some_products(), "a GPU, 13");
  std::string bad = text;
  bad[text.find('\n', text.find("8x2x64")) - 3] = 'x';
  EXPECT_EQ(products_from(bad, "a GPU, 13").size(), 2U);
  EXPECT_EQ(products_from(text.substr(0, text.size() - 40), "a GPU, 13").size(), 2U);
  EXPECT_EQ(products_from(text + "\n \nrest\n", "a GPU, 13"), some_products());
}

class ProductsOfARun : public testing::Test {
 protected:
  void SetUp() override { set_gpu_tools(&tools_); }
  void TearDown() override { set_gpu_tools(before_); }
  void train_to(const TempFolder& run, int64_t steps, OpenMode mode) {
    TrainRequest r;
    r.recipe = pico_recipe({fmt::format("train.steps={}", steps), "eval.every=0"});
    r.out = run.path();
    r.mode = mode;
    quiet_train(r);
  }

  GpuTools* const before_ = gpu_tools();
  FakeTools tools_;
};

TEST_F(ProductsOfARun, AreStoredAndTakenAgainOnResume) {
  const TempFolder run;
  train_to(run, 3, OpenMode::fresh);
  EXPECT_FALSE(std::filesystem::exists(run.file("products.txt")));  // there were none
  tools_.chosen = "first";
  train_to(run, 4, OpenMode::resume);
  EXPECT_EQ(tools_.used, "");
  EXPECT_EQ(slurp(run.file("products.txt")), "first");
  tools_.chosen = "second";
  train_to(run, 5, OpenMode::resume);
  EXPECT_EQ(tools_.used, "first");
  EXPECT_EQ(slurp(run.file("products.txt")), "second");
  tools_.chosen = "";
  train_to(run, 2, OpenMode::overwrite);  // another run: it inherits nothing
  EXPECT_EQ(tools_.used, "");
  EXPECT_FALSE(std::filesystem::exists(run.file("products.txt")));
}

}  // namespace
}  // namespace siamese
