#include "runs/images.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "core/errors.hpp"
#include "core/random.hpp"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

// First words of the files: two zero bytes, 8 = unsigned bytes, the number of dimensions.
constexpr std::uint32_t images_magic = 0x803, labels_magic = 0x801;
constexpr std::uint32_t longest_side = 1 << 12;
// Ranks of the keyed draws here, so that they are none of the stragglers' (runs/slowness.hpp).
constexpr std::uint32_t shuffle_rank = 0xFFFFFFFF, pattern_rank = 0xFFFFFFFE,
                        noise_rank = 0xFFFFFFFD;

class IdxFile {
 public:
  IdxFile(std::string path, std::uint32_t magic) : path_(std::move(path)), file_(path_) {
    std::error_code error;
    if (!file_ || fs::is_directory(path_, error)) {
      const bool packed = fs::exists(path_ + ".gz", error);
      throw file_error(path_, "", "cannot be read: " + std::string(std::strerror(errno)),
                       packed ? fmt::format("unpack it: gunzip --keep {}.gz", path_)
                              : "the folder must have all four files of the data set");
    }
    if (word() != magic) {
      throw file_error(path_, "", "is no IDX file of unsigned bytes",
                       fmt::format("its first four bytes must be {:08x}", magic));
    }
  }
  std::uint32_t word() {
    unsigned char bytes[4] = {};
    file_.read(reinterpret_cast<char*>(bytes), 4);
    header_bytes_ += 4;
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
           std::uint32_t{bytes[2]} << 8 | bytes[3];
  }
  // Everything after the header.
  std::vector<std::uint8_t> rest(std::uint64_t wanted) {
    const std::uint64_t size = fs::file_size(path_);
    if (!file_ || size != header_bytes_ + wanted) {
      throw file_error(
          path_, "",
          fmt::format("has {} bytes where its header announces {}", size, header_bytes_ + wanted),
          "copy or unpack it again");
    }
    std::vector<std::uint8_t> bytes(wanted);
    file_.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(wanted));
    if (!file_) throw file_error(path_, "", "cannot be read to its end");
    return bytes;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::ifstream file_;
  std::uint64_t header_bytes_ = 0;
};

Images read_idx(const std::string& folder, const std::string& name, std::int64_t classes) {
  Images images;
  IdxFile pixels((fs::path(folder) / (name + "-images-idx3-ubyte")).string(), images_magic);
  const std::uint32_t count = pixels.word(), height = pixels.word(), width = pixels.word();
  if (count == 0 || height == 0 || width == 0 || height > longest_side || width > longest_side) {
    throw file_error(pixels.path(), "", fmt::format("{} images of {} x {}", count, height, width),
                     fmt::format("at least one, of 1 x 1 to {0} x {0}", longest_side));
  }
  images.count = count;
  images.height = height;
  images.width = width;
  images.pixels = pixels.rest(std::uint64_t{count} * height * width);
  IdxFile labels((fs::path(folder) / (name + "-labels-idx1-ubyte")).string(), labels_magic);
  const std::uint32_t labelled = labels.word();
  images.labels = labels.rest(labelled);
  if (labelled != count) {
    throw file_error(labels.path(), "", fmt::format("{} labels for {} images", labelled, count));
  }
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    if (images.labels[i] < classes) continue;
    throw file_error(labels.path(), "",
                     fmt::format("image {} is of class {}, and the model tells 0 to {} apart", i,
                                 images.labels[i], classes - 1),
                     "--classes sets how many");
  }
  return images;
}

Images synthetic(std::int64_t count, std::uint32_t first, std::int64_t classes,
                 std::uint64_t seed) {
  constexpr std::uint32_t side = 28, block = 4;
  constexpr double contrast = 40, noise = 60;  // standard deviations, of 256 grey levels
  Images images;
  images.count = count;
  images.height = images.width = side;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::uint32_t>(i % classes);
    images.labels.push_back(static_cast<std::uint8_t>(label));
    for (std::uint32_t pixel = 0; pixel < side * side; ++pixel) {
      const std::uint32_t y = pixel / side / block, x = pixel % side / block;
      const double value =
          128 + contrast * normal_draw({seed, pattern_rank, label, y * side + x}) +
          noise * normal_draw({seed, noise_rank, first + static_cast<std::uint32_t>(i), pixel});
      images.pixels.push_back(static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0)));
    }
  }
  return images;
}

}  // namespace

ImageSets read_idx_images(const std::string& folder, std::int64_t classes) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw file_error("", "--data", fmt::format("there is no folder {}", in_quotes(folder)),
                     "a folder with the IDX files of MNIST or Fashion-MNIST, or synthetic");
  }
  ImageSets sets{read_idx(folder, "train", classes), read_idx(folder, "t10k", classes)};
  if (sets.train.height != sets.test.height || sets.train.width != sets.test.width) {
    throw file_error(folder, "", "images to train on and to test with differ in size");
  }
  return sets;
}

ImageSets synthetic_images(std::int64_t classes, std::uint64_t seed) {
  constexpr std::int64_t train = 2000, test = 500, most_classes = 10;
  const std::int64_t told_apart = std::min(classes, most_classes);
  return {synthetic(train, 0, told_apart, seed), synthetic(test, train, told_apart, seed)};
}

ShardOrder::ShardOrder(std::int64_t count, int ranks, int rank, std::int64_t batch,
                       std::uint64_t seed)
    : batch_(batch),
      ranks_(ranks),
      rank_(rank),
      steps_of_epoch_(count / ranks / batch),
      seed_(seed),
      order_(static_cast<std::size_t>(count)) {}

void ShardOrder::shuffle(std::int64_t epoch) {
  std::iota(order_.begin(), order_.end(), 0);
  for (std::size_t i = order_.size(); i > 1; --i) {  // Fisher and Yates
    const double draw = uniform_draw(
        {seed_, shuffle_rank, static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(i)});
    const auto other = static_cast<std::size_t>(draw * static_cast<double>(i));
    std::swap(order_[i - 1], order_[std::min(other, i - 1)]);
  }
  epoch_ = epoch;
}

std::vector<std::int64_t> ShardOrder::indices(std::int64_t step) {
  const std::int64_t epoch = step / steps_of_epoch_;
  if (epoch != epoch_) shuffle(epoch);
  const std::int64_t first = step % steps_of_epoch_ * batch_;
  std::vector<std::int64_t> own;
  for (std::int64_t i = first; i < first + batch_; ++i) {
    own.push_back(order_[static_cast<std::size_t>(i * ranks_ + rank_)]);
  }
  return own;
}

}  // namespace lockstep
