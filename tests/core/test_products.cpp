// The algorithms of products as text, and with a run.
#include "fake_gpu.h"
#include "ops/product_list.h"
#include "tiny.h"
#include "train/run_products.h"

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

TEST(ProductsOfARun, AreStoredAndTakenAgainOnResume) {
  const TempFolder run, other;
  RunFolder folder(run.path(), OpenMode::fresh);
  FakeTools gpu;
  keep_products(folder, &gpu);
  EXPECT_FALSE(std::filesystem::exists(run.file("products.txt")));  // there were none
  gpu.chosen = "first";
  keep_products(folder, &gpu);
  const std::string checkpoint = run.file("checkpoints/step-00000003");
  take_products(folder, checkpoint, &gpu);
  EXPECT_EQ(gpu.used, "first");
  gpu.chosen = "second";
  keep_products(folder, &gpu);
  EXPECT_EQ(slurp(run.file("products.txt")), "second");
  const RunFolder from_another(other.path(), OpenMode::fresh);
  take_products(from_another, checkpoint, &gpu);  // of the checkpoint's run
  EXPECT_EQ(gpu.used, "second");
  folder.store_recipe(pico_recipe());
  folder.clear();  // another run: it inherits nothing
  EXPECT_FALSE(std::filesystem::exists(run.file("products.txt")));
  take_products(folder, "", &gpu);
  EXPECT_EQ(gpu.used, "");
}

TEST(ProductsOfARun, OnACpuLeaveTheGpuAlone) {
  GpuTools* const before = gpu_tools();
  FakeTools gpu;
  gpu.chosen = "of another run";
  set_gpu_tools(&gpu);
  const TempFolder run;
  TrainRequest r;
  r.recipe = pico_recipe({"train.steps=1", "eval.every=0"});
  r.out = run.path();
  quiet_train(r);
  set_gpu_tools(before);
  EXPECT_EQ(gpu.used, "not called");
  EXPECT_FALSE(std::filesystem::exists(run.file("products.txt")));
}

}  // namespace
}  // namespace siamese
