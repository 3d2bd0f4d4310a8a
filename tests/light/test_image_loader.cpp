// Batches of images: what they hold, whatever the number of workers; resuming, repeating, mixing, keeping.
#include "image_loading.h"

namespace siamese {
namespace {

using namespace std::chrono_literals;

TEST(ImageLoader, DoesNotDependOnWorkers) {
  Loading run = augmented();
  run.set->slow = true;
  run.data.workers = 1;
  const std::vector<ImageBatch> expected = run.all();
  for (const int64_t workers : {2, 5}) {
    run.data.workers = workers;
    const std::vector<ImageBatch> batches = run.all();
    for (size_t i = 0; i < expected.size(); ++i) expect_equal(batches[i], expected[i]);
  }
  run.options.seed = 6;
  EXPECT_NE(run.all()[0].images, expected[0].images);
}

TEST(ImageLoader, ResumesAtAnyStep) {
  Loading run = augmented();
  const std::vector<ImageBatch> expected = run.all();
  for (const int64_t first : {1, 4, 8}) {
    run.options.first_step = first;
    const std::vector<ImageBatch> batches = run.all();
    for (size_t i = 0; i < batches.size(); ++i) expect_equal(batches[i], expected[i + static_cast<size_t>(first)]);
  }
}

TEST(ImageLoader, EachEpochHoldsEveryImageOnce) {
  Loading run;
  run.options.end_step = 23;  // 6 epochs
  const std::vector<ImageBatch> batches = run.all();
  const std::vector<int64_t> order = pictures(batches);
  std::set<std::vector<int64_t>> orders;
  for (size_t epoch = 0; epoch < 6; ++epoch) {
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(23 * epoch);
    EXPECT_EQ(std::set<int64_t>(begin, begin + 23).size(), 23u);
    orders.emplace(begin, begin + 23);
  }
  EXPECT_EQ(orders.size(), 6u);
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(batches[i / 6].labels[i % 6], order[i] % 4);
  EXPECT_TRUE(batches[0].targets.empty());

  run.options.shuffle = false;
  EXPECT_EQ(pictures(run.all()[4]), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
}

TEST(ImageLoader, RepeatsAreAugmentedDifferently) {
  Loading run;
  run.augment.repeats = 3;
  run.augment.erasing = 1;
  run.options.size = 16;
  std::set<int64_t> labels;
  const auto loader = run.start();
  for (int step = 0; step < 4; ++step) {
    const ImageBatch batch = loader->next();
    const size_t values = batch.images.size() / 6;
    for (const size_t row : {0, 3}) {
      EXPECT_EQ(batch.labels[row], batch.labels[row + 2]);
      const auto at = [&](size_t r) {
        return std::vector<float>(batch.images.begin() + static_cast<std::ptrdiff_t>(r * values),
                                  batch.images.begin() + static_cast<std::ptrdiff_t>((r + 1) * values));
      };
      EXPECT_NE(at(row), at(row + 1));
      EXPECT_NE(at(row + 1), at(row + 2));
    }
  }
  EXPECT_LE(run.set->loads, (4 + 3) * 2);  // read once, not for each repeat; three batches ahead at most

  // A batch need not end with an image: the next one goes on with it.
  run.options.batch_size = 7;
  run.augment.erasing = 0;
  const auto cut = run.start();
  std::vector<int64_t> rows;
  for (int step = 0; step < 3; ++step) {
    const ImageBatch batch = cut->next();
    rows.insert(rows.end(), batch.labels.begin(), batch.labels.end());
  }
  ASSERT_EQ(rows.size(), 21U);
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i], rows[i / 3 * 3]) << i;
}

TEST(ImageLoader, MixesImagesAndTargetsAlike) {
  Loading run;
  run.augment.mixup = 1;
  run.augment.smoothing = 0.1;
  run.options.targets = true;
  run.options.shuffle = false;
  run.set = std::make_shared<ValueSet>(6);
  for (const ImageBatch& batch : run.all()) {
    ASSERT_EQ(batch.targets.size(), 24u);
    // Picture 0 (label 0) is mixed with 5 (label 1): the value tells the share.
    const double share = 1 - (batch.images[0] + 1) * 127.5 / 5;
    EXPECT_NEAR(batch.targets[0], 0.9 * share + 0.025, 1e-4);
    EXPECT_NEAR(batch.targets[1], 0.9 * (1 - share) + 0.025, 1e-4);
    EXPECT_EQ(batch.labels, (std::vector<int64_t>{0, 1, 2, 3, 0, 1}));
  }
}

TEST(ImageLoader, StaysAFewBatchesAheadAndReusesMemory) {
  Loading run;
  run.options.end_step = 1000;
  const auto loader = run.start();
  while (!loader->ready() || run.set->loads < 3 * 6) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(run.set->loads, 3 * 6);
  ImageBatch batch = loader->next();
  for (int i = 0; i < 50; ++i) {
    loader->recycle(std::move(batch));
    batch = loader->next();
    EXPECT_EQ(batch.step, i + 1);
    EXPECT_EQ(batch.labels.size(), 6u);
  }
  const LoaderTimes times = loader->times();
  EXPECT_GT(times.decode, 0);
  EXPECT_GT(times.augment, 0);
  EXPECT_GE(times.waited, 0);
}

TEST(ImageLoader, CacheChangesNothingButTheReading) {
  Loading run = augmented();
  run.options.end_step = 40;
  const std::vector<ImageBatch> expected = run.all();
  EXPECT_EQ(run.set->loads, 120);
  run.data.cache = "on";
  run.set->loads = 0;
  const std::vector<ImageBatch> batches = run.all();
  EXPECT_LE(run.set->loads, 23 * 3);  // workers may meet at an image that none has kept yet
  for (size_t i = 0; i < expected.size(); ++i) expect_equal(batches[i], expected[i]);
}

TEST(ImageCache, KeepsWhatFits) {
  const auto loads = [](const std::string& mode, int64_t bytes) {
    const auto set = std::make_shared<ValueSet>(3);
    set->bytes = bytes;
    const auto cached = with_cache(set, mode, 8);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(cached->load(1, 8), Image(4, 4, 3, 1));
    EXPECT_EQ(cached->label(2), 2);
    return set->loads.load();
  };
  EXPECT_EQ(loads("auto", 36), 1);
  EXPECT_EQ(loads("auto", 0), 5);
  EXPECT_EQ(loads("auto", int64_t{1} << 60), 5);
  EXPECT_EQ(loads("on", 0), 1);
  EXPECT_EQ(loads("off", 36), 5);
  const auto set = std::make_shared<ValueSet>(3);
  const auto cached = with_cache(set, "on", 8);
  cached->load(1, 8);
  cached->load(1, 0);  // another size is another picture
  EXPECT_EQ(set->loads, 2);
}

}  // namespace
}  // namespace siamese
