// Labeled images to train on, and their assignment to ranks and batches. No LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct Images {
  std::int64_t count = 0, channels = 1, height = 0, width = 0;
  std::vector<std::uint8_t> pixels;  // row by row, channel by channel, image after image
  std::vector<std::uint8_t> labels;  // one an image
};

struct ImageSets {
  Images train, test;
};

// The four files of MNIST, Fashion-MNIST and their likes in `folder`,
// {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte ("The MNIST database of
// handwritten digits", LeCun, Cortes, Burges, section "File formats"), or CIFAR-10's binary
// version, data_batch_{1..5}.bin and test_batch.bin (Krizhevsky, "The CIFAR-10 dataset"); each
// unpacked or as .gz. Throws ConfigError, which names the file, when one is missing, is not of this
// format, is longer or shorter than its header says, or has a label that is not below `classes`.
ImageSets read_image_folder(const std::string& folder, std::int64_t classes);

// The data set `name`: "fashion-mnist" as in Debian's package, "synthetic", or a folder with the
// files of MNIST, Fashion-MNIST (IDX) or CIFAR-10 (binary version). Throws ConfigError.
ImageSets read_data_set(const std::string& name, std::int64_t classes, std::uint64_t seed);

// Forgets all but the first `count` images; 0 = keeps all.
void keep_first(Images& images, std::int64_t count);

// Takes the last `count` images off; -> them.
Images take_last(Images& images, std::int64_t count);

// 2000 images to train on and 500 to test with, 28 x 28, of ten classes (or `classes`, if fewer):
// a random picture of 7 x 7 squares for each class, and on every pixel noise of 1.5 times its
// contrast.
ImageSets synthetic_images(std::int64_t classes, std::uint64_t seed);

// Deals `count` images out to ranks: every epoch in another keyed order, the same on all ranks, of
// which each takes every ranks-th. Images that do not fill a batch on every rank are left out, as
// with DistributedSampler(drop_last) and DataLoader(drop_last).
class ShardOrder {
 public:
  // Needs `count` >= `ranks` * `batch`.
  ShardOrder(std::int64_t count, int ranks, int rank, std::int64_t batch, std::uint64_t seed);
  // A rank's own images, which no other rank takes: at least one. Fewer than a batch are taken more
  // than once.
  ShardOrder(std::vector<std::int64_t> own, int rank, std::int64_t batch, std::uint64_t seed);
  std::vector<std::int64_t> indices(std::int64_t step);  // of the images of this rank's step

 private:
  void shuffle(std::int64_t epoch);
  std::int64_t batch_, ranks_, rank_, steps_of_epoch_;
  std::uint64_t seed_;
  std::uint32_t key_;              // of the order's draws
  std::vector<std::int64_t> own_;  // empty = all
  std::int64_t epoch_ = -1;
  std::vector<std::int64_t> order_;
};

}  // namespace lockstep
