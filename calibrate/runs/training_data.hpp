// Training and test data of the ranks of a real run. Includes ATen, so only .cpp files may include
// it.
#pragma once

#include <memory>

#include "runs/images.hpp"
#include "runs/train_options.hpp"
#include "torch/real_network.hpp"

namespace lockstep {

// Converts images to the network's input. Pixels get mean 0 and standard deviation 1 over the
// training set. Images are enlarged by the largest whole factor that fits and padded, or averaged
// down if the network's input is smaller. A gray image is copied to every channel; a coloured image
// becomes gray if the network has another number of channels.
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
  std::vector<float> values_;  // normalized value of each level of a pixel (0 to 255)
};

// Classifies the images first, first + every, ... below `count`, and returns how many the network
// classifies rightly. If `judged` is not null, adds the number of classified images to it.
std::int64_t count_right(RealNetwork& network, const ImageBatches& batches, const Images& images,
                         std::int64_t count, std::int64_t first = 0, std::int64_t every = 1,
                         std::int64_t* judged = nullptr);

class TrainingData {
 public:
  TrainingData(const TrainOptions& options, const TrainingStep& step, int rank);

  // The rank's batch in `step`; the reference to the batch before becomes invalid. Without a data
  // set, every step has the same random batch.
  const Batch& batch(std::int64_t step);
  // Classifies this rank's part of the test set (every ranks-th image). Does nothing without a data
  // set.
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
