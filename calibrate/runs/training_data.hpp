// Training and test data of the ranks of a real run. Includes ATen: only for .cpp files.
#pragma once

#include <memory>

#include "runs/images.hpp"
#include "runs/train_options.hpp"
#include "torch/real_network.hpp"

namespace lockstep {

// Images as the network takes them: levels with mean 0 and standard deviation 1 over the
// training set, enlarged by the largest whole factor that fits and padded with black (or averaged
// down, if the network's input is smaller); gray ones are the same in every channel, and colored
// ones become gray where the network's channels are not theirs.
class ImageBatches {
 public:
  ImageBatches(const Images& train, const TrainingStep& step, at::Device device);
  Batch make(const Images& images, const std::vector<std::int64_t>& indices) const;

 private:
  at::Tensor enlarged(const Images& images, const std::vector<std::int64_t>& indices,
                      std::int64_t factor) const;

  std::vector<std::int64_t> shape_;  // channels, height, width
  at::Device device_;
  at::ScalarType type_;
  double mean_ = 0, deviation_ = 1;
  std::vector<float> values_;  // of each level of a pixel
};

// How many of images first, first + every, ... below `count` the network classifies rightly; adds
// how many it looked at to *judged, if asked.
std::int64_t count_right(RealNetwork& network, const ImageBatches& batches, const Images& images,
                         std::int64_t count, std::int64_t first = 0, std::int64_t every = 1,
                         std::int64_t* judged = nullptr);

class TrainingData {
 public:
  TrainingData(const TrainOptions& options, const TrainingStep& step, int rank);

  // The rank's batch of its step `step`; the one before is gone. Without data: always the same
  // random one.
  const Batch& batch(std::int64_t step);
  // Classifies the rank's share of the test set (every ranks-th image); does nothing without data.
  void judge(RealNetwork& network, RankReport& report) const;

 private:
  struct RealImages {
    ImageSets sets;
    ImageBatches batches;
    ShardOrder order;
  };
  std::unique_ptr<RealImages> images_;
  Batch batch_;
  int rank_, ranks_;
};

}  // namespace lockstep
