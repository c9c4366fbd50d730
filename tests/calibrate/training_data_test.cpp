// Do real runs learn from real files, and are invalid files named?
#include "runs/training_data.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "calibrate/command.hpp"
#include "core/errors.hpp"
#include "workload/model.hpp"

namespace lockstep::training_data_test {
namespace {

using testing::HasSubstr;

std::string word(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
  return bytes;
}

constexpr std::int64_t side = 14, classes = 4;

// Images of four classes; the class is the bright quarter of the image.
struct Toy {
  RunFolder folder;
  Toy() {
    write("train", 256);
    write("t10k", 64);
  }
  void write(const std::string& name, std::uint32_t count) const {
    std::string pixels = word(0x803) + word(count) + word(side) + word(side);
    std::string labels = word(0x801) + word(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t label = i % classes;
      labels += static_cast<char>(label);
      for (std::int64_t y = 0; y < side; ++y) {
        for (std::int64_t x = 0; x < side; ++x) {
          const bool bright = y / (side / 2) == label / 2 && x / (side / 2) == label % 2;
          pixels += static_cast<char>((bright ? 180 : 20) + (i * 31 + x * 17 + y * 13) % 60);
        }
      }
    }
    file(name + "-images-idx3-ubyte") << pixels;
    file(name + "-labels-idx1-ubyte") << labels;
  }
  std::ofstream file(const std::string& name) const { return std::ofstream(folder.file(name)); }
  std::string path() const { return folder.path().string(); }
};

nlohmann::json result_of(const std::string& arguments) {
  Command command("train --json --model lenet5 " + arguments);
  EXPECT_EQ(command.wait(), 0) << command.err();
  return nlohmann::json::parse(command.out()).at("runs").at(0);
}

class LearningRuns : public testing::TestWithParam<const char*> {};

// A network that guesses gets a quarter of the images right.
TEST_P(LearningRuns, ClassifyWhatTheyHaveNotSeen) {
  const Toy toy;
  const auto run = result_of("--steps 60 --strategy " + std::string(GetParam()) + " --data " +
                             toy.path() + " --classes 4");
  EXPECT_GT(run.at("test_accuracy"), 0.8);
  EXPECT_LT(run.at("each_loss").back(), 0.7 * run.at("each_loss").front().get<double>());
}

INSTANTIATE_TEST_SUITE_P(Training, LearningRuns,
                         testing::Values("ddp", "fsdp", "ps-sync", "ps-async"),
                         [](const testing::TestParamInfo<const char*>& one) {
                           std::string name = one.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// A network can learn the ten classes.
TEST(SyntheticImages, CanBeLearned) {
  EXPECT_GT(result_of("--steps 100 --batch 16 --data synthetic").at("test_accuracy"), 0.5);
  EXPECT_FALSE(result_of("--steps 1").contains("test_accuracy"));
}

TEST(RealRun, SaysTheStalenessOfEveryUpdate) {
  const auto staleness = result_of("--steps 20 --strategy ps-async").at("staleness");
  const auto each = staleness.at("each_update").get<std::vector<double>>();
  EXPECT_GE(each.size(), 40u);
  EXPECT_NEAR(std::accumulate(each.begin(), each.end(), 0.0) / static_cast<double>(each.size()),
              staleness.at("mean"), 1e-9);
}

TEST(ShardOrder, DealsEveryImageToOneRankInEveryEpoch) {
  std::vector<std::vector<std::int64_t>> epochs;
  ShardOrder first(41, 2, 0, 5, 1), second(41, 2, 1, 5, 1);  // one image is left out
  for (std::int64_t step = 0; step < 8; ++step) {            // four steps are an epoch
    if (step % 4 == 0) epochs.emplace_back();
    for (ShardOrder* rank : {&first, &second}) {
      for (const std::int64_t image : rank->indices(step)) epochs.back().push_back(image);
    }
  }
  for (const auto& epoch : epochs) {
    EXPECT_EQ(std::set(epoch.begin(), epoch.end()).size(), 40u);
    EXPECT_LT(*std::max_element(epoch.begin(), epoch.end()), 41);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_EQ(ShardOrder(41, 2, 1, 5, 1).indices(6), second.indices(6));
  EXPECT_NE(ShardOrder(41, 2, 1, 5, 2).indices(6), second.indices(6));
}

TrainingStep step_of(std::int64_t channels, std::int64_t side_of_input) {
  StepOptions options;
  options.samples = 2;
  options.image = {channels, side_of_input, side_of_input};
  return build_step(*load_model("lenet5"), options);
}

// Two images of 2 x 2 pixels with mean 50 and standard deviation 50.
TEST(ImageBatches, FitTheNetworksInput) {
  const Images images{2, 1, 2, 2, {0, 100, 0, 100, 100, 0, 100, 0}, {3, 4}};
  const auto make = [&](const TrainingStep& step) {
    return ImageBatches(images, step, at::kCPU).make(images, {1, 0});
  };
  const Batch same = make(step_of(3, 28));  // each pixel becomes 14 pixels
  EXPECT_EQ(same.input.sizes(), (at::IntArrayRef{2, 3, 28, 28}));
  EXPECT_EQ(same.target[0].item<int>(), 4);
  for (const int channel : {0, 2}) {
    EXPECT_EQ(same.input[0][channel][0][13].item<float>(), 1);
    EXPECT_EQ(same.input[0][channel][27][14].item<float>(), -1);
    EXPECT_EQ(same.input[1][channel][0][0].item<float>(), -1);
  }
  const Batch padded = make(step_of(1, 29));  // a further row and column of black pixels
  EXPECT_EQ(padded.input[0][0][0][13].item<float>(), 1);
  EXPECT_EQ(padded.input[1][0][0][28].item<float>(), -1);
  EXPECT_EQ(padded.input[1][0][0][27].item<float>(), 1);
}

// Every pixel of colored images follows the formula: twice the size, with a black border.
TEST(ImageBatches, AreEnlargedAndPaddedPixelByPixel) {
  Images images{3, 3, 13, 14, std::vector<std::uint8_t>(3 * 3 * 13 * 14), {0, 1, 2}};
  for (std::size_t i = 0; i < images.pixels.size(); ++i) {
    images.pixels[i] = static_cast<std::uint8_t>(i * 37 % 251);
  }
  const at::Tensor levels = at::from_blob(images.pixels.data(), {3, 3, 13, 14}, at::kByte);
  const at::Tensor all = levels.to(at::kDouble);
  const double mean = all.mean().item<double>(), deviation = all.std(false).item<double>();
  at::Tensor expected = levels.to(at::kFloat).repeat_interleave(2, 2).repeat_interleave(2, 3);
  expected = at::constant_pad_nd(expected, {0, 0, 1, 1}, 0).sub_(mean).div_(deviation);
  const Batch batch = ImageBatches(images, step_of(3, 28), at::kCPU).make(images, {2, 0});
  EXPECT_LT((batch.input - expected.index_select(0, at::tensor({2, 0}))).abs().max().item<double>(),
            1e-6);
  EXPECT_TRUE(batch.input.slice(2, 0, 1).equal(batch.input.slice(2, 27, 28)));
}

TEST(ImageBatches, AreAveragedDownForASmallerInput) {
  Images images{1, 1, 56, 56, std::vector<std::uint8_t>(56 * 56), {0}};
  for (std::size_t i = 0; i < images.pixels.size(); ++i) images.pixels[i] = i % 2 == 0 ? 0 : 200;
  const Batch batch = ImageBatches(images, step_of(1, 28), at::kCPU).make(images, {0});
  EXPECT_NEAR(batch.input.abs().max().item<double>(), 0, 1e-6);  // every pixel is the mean
}

std::string refusal(const std::string& folder, std::int64_t told_apart = 10) {
  try {
    read_image_folder(folder, told_apart);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(IdxFiles, ThatAreWrongAreNamed) {
  const Toy toy;
  EXPECT_EQ(refusal(toy.path()), "accepted");
  EXPECT_THAT(refusal(toy.path(), 3), HasSubstr("train-labels-idx1-ubyte: image 3 is of class 3"));
  EXPECT_THAT(refusal(toy.path() + "/none"), HasSubstr("--data: there is no folder"));

  toy.file("t10k-labels-idx1-ubyte") << word(0x801) << word(63) << std::string(63, '\1');
  EXPECT_THAT(refusal(toy.path()), HasSubstr("t10k-labels-idx1-ubyte: 63 labels for 64 images"));
  toy.file("t10k-labels-idx1-ubyte") << word(0x801) << word(64) << std::string(60, '\1');
  EXPECT_THAT(refusal(toy.path()), HasSubstr("has 68 bytes where its header announces 72"));
  toy.file("t10k-images-idx3-ubyte") << word(0x803) << word(64);
  EXPECT_THAT(refusal(toy.path()), HasSubstr("t10k-images-idx3-ubyte: 64 images of 0 x 0"));
  toy.file("train-images-idx3-ubyte") << "neither";
  EXPECT_THAT(refusal(toy.path()), HasSubstr("its first four bytes must be 00000803"));
  toy.file("train-images-idx3-ubyte") << "\x1f\x8b\x08 packed";
  EXPECT_THAT(refusal(toy.path()), HasSubstr("train-images-idx3-ubyte: cannot be read to its end"));
  toy.file("train-images-idx3-ubyte") << "";
  EXPECT_THAT(refusal(toy.path()), HasSubstr("is no IDX file"));
  std::filesystem::remove(toy.folder.file("train-images-idx3-ubyte"));
  EXPECT_THAT(refusal(toy.path()), HasSubstr("train-images-idx3-ubyte: cannot be read: No such"));
}

TEST(Data, ThatDoesNotSuitIsRefusedBeforeAnythingStarts) {
  const Toy toy;
  for (const auto& [arguments, reason] : std::vector<std::pair<std::string, std::string>>{
           {"--model lenet5 --data /nowhere", "there is no folder '/nowhere'"},
           {"--model gpt --data synthetic", "does not read images"},
           {"--model lenet5 --batch 200 --data " + toy.path(), "256 images are no batch of 200"},
           {"--model lenet5 --classes 3 --data " + toy.path(), "--classes"}}) {
    Command command("train " + arguments);
    EXPECT_EQ(command.wait(), 2) << arguments;
    EXPECT_THAT(command.err(), HasSubstr(reason));
    EXPECT_EQ(command.out(), "");
  }
}

}  // namespace
}  // namespace lockstep::training_data_test
