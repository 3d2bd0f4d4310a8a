// Batches from the background thread: order, waiting, errors, stopping, resuming.
#include <atomic>
#include <chrono>
#include <thread>

#include "data/loader.h"
#include "data_files.h"

namespace siamese {
namespace {

using namespace std::chrono_literals;

// Sample i is filled with i. Optionally slow, optionally with a bad sample.
class CountingSource final : public Source {
 public:
  std::string describe() const override { return "counting"; }
  int64_t vocab_size() const override { return 1 << 20; }
  bool bytes() const override { return false; }
  int64_t eos() const override { return -1; }
  void sample(int64_t index, std::span<int64_t> out) const override {
    if (index == bad) fail("sample {} is bad", index);
    std::this_thread::sleep_for(pause);
    std::fill(out.begin(), out.end(), index);
    ++made;
  }
  int64_t validation_windows() const override { return 0; }
  int64_t validation(int64_t, std::span<int64_t>) const override { return 0; }

  int64_t bad = -1;
  std::chrono::milliseconds pause{0};
  mutable std::atomic<int64_t> made = 0;
};

TEST(Loader, DeliversEveryStepInOrder) {
  const CountingSource source;
  Loader loader(source, 3, 7, 2, 50);
  for (int64_t step = 2; step < 50; ++step) {
    const Batch batch = loader.next();
    ASSERT_EQ(batch.step, step);
    ASSERT_EQ(batch.ids.size(), 3u * 8u);
    for (size_t i = 0; i < batch.ids.size(); ++i) ASSERT_EQ(batch.ids[i], step * 3 + static_cast<int64_t>(i / 8));
  }
  EXPECT_EQ(error_of([&] { loader.next(); }), "data: no batch left, the last step is 49");
  EXPECT_NE(error_of([&] { loader.next(); }), "");
}

TEST(Loader, HasNothingWhenThereIsNoStep) {
  const CountingSource source;
  Loader loader(source, 3, 7, 5, 5);
  EXPECT_THROW(loader.next(), Error);
}

TEST(Loader, MeasuresWaiting) {
  CountingSource source;
  source.pause = 20ms;
  Loader loader(source, 1, 7, 0, 3);
  for (int i = 0; i < 3; ++i) loader.next();
  EXPECT_GT(loader.waited(), 0.04);
}

TEST(Loader, SaysWhetherABatchIsReady) {
  CountingSource source;
  source.pause = 30ms;
  source.bad = 1;
  Loader loader(source, 1, 7, 0, 3);
  EXPECT_FALSE(loader.ready());
  for (int i = 0; i < 500 && !loader.ready(); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(loader.ready());
  EXPECT_EQ(loader.next().step, 0);
  EXPECT_NE(error_of([&] { loader.next(); }), "");
  EXPECT_FALSE(loader.ready());  // an error is not a batch
}

TEST(Loader, WorksAheadButNotWithoutEnd) {
  const CountingSource source;
  Loader loader(source, 2, 7, 0, 1000);
  for (int i = 0; i < 500 && source.made < 8; ++i) std::this_thread::sleep_for(10ms);
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(source.made, 8);  // four batches of two
}

TEST(Loader, CarriesTheErrorToTheStepItBelongsTo) {
  CountingSource source;
  source.bad = 7;  // second row of step 3
  Loader loader(source, 2, 7, 0, 100);
  for (int64_t step = 0; step < 3; ++step) {
    std::this_thread::sleep_for(10ms);
    EXPECT_EQ(loader.next().step, step);
  }
  for (int i = 0; i < 2; ++i) EXPECT_EQ(error_of([&] { loader.next(); }), "sample 7 is bad");
}

TEST(Loader, StopsWhenFullWhenBusyAndAfterAnError) {
  for (int i = 0; i < 50; ++i) {
    CountingSource source;
    source.pause = std::chrono::milliseconds(i % 3);
    source.bad = i % 5 == 0 ? 6 : -1;
    Loader loader(source, 2, 7, 0, 1000);
    if (i % 2 == 0) loader.next();
    if (i % 7 == 0) std::this_thread::sleep_for(20ms);
  }
}

TEST(Loader, ResumesAtAnyStep) {
  const DataFolder folder;
  std::vector<DataConfig> configs(4);
  configs[0].source = "arithmetic";
  configs[1].source = "sentences";
  configs[2].text = folder.write("a.txt", std::string(3000, 'a') + std::string(3000, 'b') + std::string(3000, 'c'));
  configs[3].tokens = {folder.write_ids("a", 0, 2000, 2), folder.write_ids("b", 5000, 300, 2)};
  for (const DataConfig& config : configs) {
    const auto source = make_source(config, 32, 11), again = make_source(config, 32, 11);
    Loader whole(*source, 5, 32, 0, 60);
    for (int i = 0; i < 37; ++i) whole.next();
    Loader rest(*again, 5, 32, 37, 60);
    for (int64_t step = 37; step < 60; ++step) {
      const Batch one = whole.next(), two = rest.next();
      EXPECT_EQ(one.step, step);
      EXPECT_EQ(two.step, step);
      EXPECT_EQ(one.ids, two.ids);
    }
  }
}

}  // namespace
}  // namespace siamese
