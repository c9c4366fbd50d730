// Are data sets read correctly, and is damage in their files named?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/errors.hpp"
#include "launch/processes.hpp"
#include "runs/images.hpp"

namespace lockstep::data_sets_test {
namespace {

using testing::HasSubstr;

TEST(DataSets, Cifar10IsReadAndItsDamageNamed) {
  const RunFolder folder;
  const auto write = [&](const std::string& name, int count, int label) {
    std::ofstream file(folder.file(name));
    for (int i = 0; i < count; ++i) {
      file << static_cast<char>(label) << std::string(1024, '\x10') << std::string(1024, '\x20')
           << std::string(1024, '\x30');
    }
  };
  for (int batch = 1; batch <= 5; ++batch)
    write("data_batch_" + std::to_string(batch) + ".bin", 4, batch);
  const auto refusal = [&] {
    try {
      read_data_set(folder.path().string(), 10, 1);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal(), HasSubstr("test_batch.bin: cannot be read"));
  write("test_batch.bin", 3, 9);
  const ImageSets sets = read_data_set(folder.path().string(), 10, 1);
  EXPECT_EQ(sets.train.count, 20);
  EXPECT_EQ(sets.test.count, 3);
  EXPECT_EQ(sets.train.channels, 3);
  EXPECT_EQ(sets.train.pixels[1024], 0x20);
  EXPECT_EQ(sets.test.labels[2], 9);
  std::ofstream(folder.file("test_batch.bin"), std::ios::app) << "more";
  EXPECT_THAT(refusal(), HasSubstr("no whole number of records"));
  write("test_batch.bin", 1, 12);
  EXPECT_THAT(refusal(), HasSubstr("image 0 is of class 12"));
  EXPECT_THAT([] { read_data_set("/nowhere", 10, 1); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("there is no folder")));
}

TEST(Images, TakenOffAreNotLeft) {
  Images all = synthetic_images(10, 1).train;
  Images first = all;
  const Images last = take_last(first, 300);
  EXPECT_EQ(first.count, 1700);
  EXPECT_EQ(last.count, 300);
  std::vector<std::uint8_t> joined = first.pixels;
  joined.insert(joined.end(), last.pixels.begin(), last.pixels.end());
  EXPECT_EQ(joined, all.pixels);
  EXPECT_EQ(last.labels.back(), all.labels.back());
}

}  // namespace
}  // namespace lockstep::data_sets_test
