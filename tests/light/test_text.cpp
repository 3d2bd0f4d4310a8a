#include "util/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace siamese {
namespace {

TEST(Text, NearestFindsTheTypo) {
  const std::vector<std::string> keys = {"learning_rate", "batch_size", "weight_decay", "lr"};
  EXPECT_EQ(nearest("learning_rat", keys), "learning_rate");
  EXPECT_EQ(nearest("batchsize", keys), "batch_size");
  EXPECT_EQ(nearest("weigth_decay", keys), "weight_decay");
  EXPECT_EQ(nearest("lr", keys), "lr");
  EXPECT_EQ(nearest("ls", keys), "lr");  // distance 1 is half of its length, not more
}

TEST(Text, NearestGivesNothingWhenAllAreFar) {
  EXPECT_EQ(nearest("dropout", {"learning_rate", "seed"}), "");
  EXPECT_EQ(nearest("x", {"y"}), "");
  EXPECT_EQ(nearest("", {"a"}), "");
  EXPECT_EQ(nearest("word", {}), "");
  EXPECT_EQ(nearest("word", {std::string(1 << 20, 'w')}), "");  // and does not take an hour to say so
}

TEST(Text, NearestPrefersTheFirstOfEquals) { EXPECT_EQ(nearest("beta3", {"beta1", "beta2"}), "beta1"); }

TEST(Text, PrintableEscapesControlCharacters) {
  EXPECT_EQ(printable("blocks.0.w"), "blocks.0.w");
  EXPECT_EQ(printable("a\nb\x1b[31m"), "a\\x0ab\\x1b[31m");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\x7f"), "\\x7f");
  EXPECT_EQ(printable("\xc2\x85"), "\\u0085");               // next line
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\u202e");           // right-to-left override
  EXPECT_EQ(printable("äß漢\U0001F600"), "äß漢\U0001F600");  // other characters stay
}

TEST(Text, PrintableEscapesWhatIsNotUtf8) {
  EXPECT_EQ(printable("\xff\x80"), "\\xff\\x80");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(printable("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");           // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
  EXPECT_EQ(printable("a\xe2\x82"), "a\\xe2\\x82");                  // cut short
}

TEST(Text, PrintableCutsWholeCharacters) {
  EXPECT_EQ(printable(std::string(80, 'x')), std::string(80, 'x'));
  EXPECT_EQ(printable(std::string(81, 'x')), std::string(80, 'x') + "…");
  EXPECT_EQ(printable("aää", 4), "aä…");
  EXPECT_EQ(printable("ab\n", 4), "ab…");
  EXPECT_EQ(printable("abc", 0), "…");
  EXPECT_EQ(printable("", 0), "");
}

TEST(Text, HumanBytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(1.5 * 1024 * 1024 * 1024), "1.5 GiB");
  EXPECT_EQ(human_bytes(1024.0 * 1024 - 1), "1.0 MiB");  // never "1024.0 KiB"
  EXPECT_EQ(human_bytes(-2048), "-2.0 KiB");
  EXPECT_EQ(human_bytes(0x1p64), "16.0 EiB");
  EXPECT_EQ(human_bytes(0x1p74), "16384.0 EiB");
}

TEST(Text, HumanCount) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(812), "812");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(1000), "1.00k");
  EXPECT_EQ(human_count(45600), "45.6k");
  EXPECT_EQ(human_count(99970), "100k");
  EXPECT_EQ(human_count(999600), "1.00M");
  EXPECT_EQ(human_count(1.23e6), "1.23M");
  EXPECT_EQ(human_count(7e9), "7.00B");
  EXPECT_EQ(human_count(2.5e15), "2500T");
  EXPECT_EQ(human_count(0.5), "0.5");
  EXPECT_EQ(human_count(-1500), "-1.50k");
}

TEST(Text, HumanSeconds) {
  EXPECT_EQ(human_seconds(0), "0s");
  EXPECT_EQ(human_seconds(12), "12s");
  EXPECT_EQ(human_seconds(59.7), "1m 00s");
  EXPECT_EQ(human_seconds(200), "3m 20s");
  EXPECT_EQ(human_seconds(3599.8), "1h 00m");
  EXPECT_EQ(human_seconds(3720), "1h 02m");
  EXPECT_EQ(human_seconds(7199), "2h 00m");
  EXPECT_EQ(human_seconds(100 * 3600), "100h 00m");
  EXPECT_EQ(human_seconds(-5), "-5s");
  EXPECT_EQ(human_seconds(std::numeric_limits<double>::infinity()), "?");
  EXPECT_EQ(human_seconds(std::nan("")), "?");
}

TEST(Text, Join) {
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(join({"a"}, ", "), "a");
  EXPECT_EQ(join({"a", "", "c"}, ", "), "a, , c");
}

}  // namespace
}  // namespace siamese
