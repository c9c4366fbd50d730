// Labelled images for training and testing, and their assignment to ranks and batches. Includes no
// LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct Images {
  std::int64_t count = 0, channels = 1, height = 0, width = 0;
  std::vector<std::uint8_t> pixels;  // row by row, channel by channel, image after image
  std::vector<std::uint8_t> labels;  // one for each image
};

struct ImageSets {
  Images train, test;
};

// Reads a folder in MNIST's format, {train,t10k}-images-idx3-ubyte and
// {train,t10k}-labels-idx1-ubyte ("The MNIST database of handwritten digits", LeCun, Cortes,
// Burges, section "File formats"), or in CIFAR-10's binary version, data_batch_{1..5}.bin and
// test_batch.bin (Krizhevsky, "The CIFAR-10 dataset"). Each file may be compressed as .gz. Throws
// ConfigError, which names the file, if a file is missing, has another format, is longer or shorter
// than its header says, or has a label that is not below `classes`.
ImageSets read_image_folder(const std::string& folder, std::int64_t classes);

// Reads the data set `name`: "fashion-mnist" (from Debian's package), "synthetic" (generated with
// `seed`), or a folder for read_image_folder(). Throws ConfigError.
ImageSets read_data_set(const std::string& name, std::int64_t classes, std::uint64_t seed);

// Removes all except the first `count` images; 0 = removes none.
void keep_first(Images& images, std::int64_t count);

// Removes the last `count` images, and returns them.
Images take_last(Images& images, std::int64_t count);

// Makes 2000 images for training and 500 for testing, of 28 x 28 pixels and ten classes (or
// `classes`, if that is fewer). Each class has a random picture of 7 x 7 squares; each pixel gets
// noise of 1.5 times the picture's contrast.
ImageSets synthetic_images(std::int64_t classes, std::uint64_t seed);

// Assigns `count` images to ranks. Every epoch has another keyed order, which is the same on all
// ranks; rank r takes the places r, r + ranks, r + 2 ranks, and so on. Images that do not fill a
// batch on every rank are left out, as with DistributedSampler(drop_last) and
// DataLoader(drop_last).
class ShardOrder {
 public:
  // REQUIRES: `count` >= `ranks` * `batch`.
  ShardOrder(std::int64_t count, int ranks, int rank, std::int64_t batch, std::uint64_t seed);
  // For a rank with its own images `own`, which no other rank uses. A batch that is larger than
  // `own` has some images several times.
  ShardOrder(std::vector<std::int64_t> own, int rank, std::int64_t batch, std::uint64_t seed);
  std::vector<std::int64_t> indices(std::int64_t step);  // images of this rank's batch in `step`

 private:
  void shuffle(std::int64_t epoch);
  std::int64_t batch_, ranks_, rank_, steps_of_epoch_;
  std::uint64_t seed_;
  std::uint32_t key_;              // the `rank` in the keys of the order's draws
  std::vector<std::int64_t> own_;  // empty = all
  std::int64_t epoch_ = -1;
  std::vector<std::int64_t> order_;
};

}  // namespace lockstep
