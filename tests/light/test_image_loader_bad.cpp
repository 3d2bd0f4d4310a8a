// Image loaders in trouble: images that cannot be read, wrong sizes, the end, stopping; and validation.
#include "image_loading.h"

namespace siamese {
namespace {

TEST(ImageLoader, RefusesABadImageAtItsStep) {
  Loading run;
  run.set = std::make_shared<ValueSet>(23, std::set<int64_t>{8, 10});
  run.options.shuffle = false;
  for (const int64_t workers : {1, 4}) {
    run.data.workers = workers;
    const auto loader = run.start();
    EXPECT_EQ(pictures(loader->next()).back(), 5);
    for (int i = 0; i < 2; ++i) {
      const std::string message = error_of([&] { loader->next(); });
      EXPECT_EQ(message, "picture_8: the picture is torn (data.corrupt skip leaves such images out)");
    }
    EXPECT_FALSE(loader->ready());
    EXPECT_EQ(loader->skipped(), 0);
  }
}

TEST(ImageLoader, SkipsBadImagesInOrder) {
  Loading run;
  run.set = std::make_shared<ValueSet>(23, std::set<int64_t>{8, 10, 11, 22});
  run.data.corrupt = "skip";
  run.options.shuffle = false;
  for (const int64_t workers : {1, 5}) {
    run.data.workers = workers;
    const auto loader = run.start();
    EXPECT_EQ(pictures(loader->next()), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(loader->skipped(), 0);
    const ImageBatch second = loader->next();
    EXPECT_EQ(pictures(second), (std::vector<int64_t>{6, 7, 9, 9, 12, 12}));
    EXPECT_EQ(second.labels, (std::vector<int64_t>{2, 3, 1, 1, 0, 0}));
    EXPECT_EQ(loader->skipped(), 3);
    loader->next();
    EXPECT_EQ(pictures(loader->next()), (std::vector<int64_t>{18, 19, 20, 21, 0, 0}));  // the epoch's order is a ring
    for (int step = 4; step < 9; ++step) loader->next();
    EXPECT_EQ(loader->skipped(), 4);  // each counted once
    EXPECT_EQ(loader->skipped_names(),
              (std::vector<std::string>{"picture_8", "picture_10", "picture_11", "picture_22"}));
  }
}

TEST(ImageLoader, FailsWhereNothingCanBeRead) {
  Loading run;
  std::set<int64_t> all;
  for (int64_t i = 0; i < 12; ++i) all.insert(i);
  run.set = std::make_shared<ValueSet>(12, all);
  run.data.corrupt = "skip";
  const auto loader = run.start();
  const std::string message = error_of([&] { loader->next(); });
  EXPECT_NE(message.find("none of the 12 images"), std::string::npos) << message;
  EXPECT_NE(message.find("torn"), std::string::npos) << message;
}

TEST(ImageLoader, KeepsTenNames) {
  Loading run;
  std::set<int64_t> bad;
  for (int64_t i = 1; i < 23; ++i) bad.insert(i);
  run.set = std::make_shared<ValueSet>(23, bad);
  run.data.corrupt = "skip";
  const auto loader = run.start();
  EXPECT_EQ(pictures(loader->next()), std::vector<int64_t>(6, 0));
  for (int i = 0; i < 6; ++i) loader->next();
  EXPECT_EQ(loader->skipped(), 22);
  EXPECT_EQ(loader->skipped_names().size(), 10u);
}

TEST(ImageLoader, EndsAndRefusesWhatCannotBe) {
  Loading run;
  run.options.end_step = 1;
  const auto loader = run.start();
  loader->next();
  EXPECT_FALSE(loader->ready());
  EXPECT_NE(error_of([&] { loader->next(); }).find("the last step is 0"), std::string::npos);
  run.options.classes = 3;
  EXPECT_NE(error_of([&] { run.start(); }).find("the data has 4 classes"), std::string::npos);
  run.options.classes = 4;
  run.set = std::make_shared<ValueSet>(0);
  EXPECT_NE(error_of([&] { run.start(); }), "");
}

TEST(ImageLoader, StopsAtAnyTime) {
  Loading run = augmented();
  run.set->slow = true;
  run.options.end_step = 1 << 30;
  for (int i = 0; i < 20; ++i) {
    const auto loader = run.start();
    std::this_thread::sleep_for(std::chrono::microseconds(150 * i));
    if (i % 4 == 3) loader->next();
  }
}

TEST(ValidationBatch, IsTheSameWithAnyWorkers) {
  const ValueSet set(40, {33});
  AugmentConfig augment;
  augment.normalize = "half";
  const Transform transform(augment, 6, 1);
  for (const int64_t workers : {0, 1, 7}) {
    const ImageBatch batch = validation_batch(set, transform, 5, 9, 6, 1, workers);
    EXPECT_EQ(batch.images.size(), 9u * 36);
    EXPECT_EQ(pictures(batch), (std::vector<int64_t>{5, 6, 7, 8, 9, 10, 11, 12, 13}));
    EXPECT_EQ(batch.labels[2], 3);
    EXPECT_EQ(error_of([&] { validation_batch(set, transform, 30, 10, 6, 1, workers); }),
              "picture_33: the picture is torn");
    const ImageBatch rest = validation_batch(set, transform, 31, 4, 6, 1, workers, true);
    EXPECT_EQ(pictures(rest), (std::vector<int64_t>{31, 32, 34}));
    EXPECT_EQ(rest.labels, (std::vector<int64_t>{3, 0, 2}));
  }
  EXPECT_NE(error_of([&] { validation_batch(set, transform, 35, 6, 6, 1, 1); }), "");
  EXPECT_TRUE(validation_batch(set, transform, 40, 0, 6, 1, 2).labels.empty());
}

}  // namespace
}  // namespace siamese
