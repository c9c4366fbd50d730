// Reads data sets in IDX format (MNIST, Fashion-MNIST) and in CIFAR-10's binary format, makes
// synthetic images, and assigns images to ranks and batches. All orders are keyed draws, so that
// each rank computes its own part without communication.
#include "runs/images.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "core/errors.hpp"
#include "core/random.hpp"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

// First four bytes of the files: two zeros, 8 (unsigned bytes), and the number of dimensions.
constexpr std::uint32_t images_magic = 0x803, labels_magic = 0x801;
constexpr std::uint32_t longest_side = 1 << 12;
// Values of `rank` in the keys of this file's draws. They differ from real ranks, which the draws
// of stragglers use (runs/slowness.hpp).
constexpr std::uint32_t shuffle_rank = 0xFFFFFFFF, pattern_rank = 0xFFFFFFFE,
                        noise_rank = 0xFFFFFFFD, own_order_rank = 0xFFFF0000;

// The bytes of the file `path`, or of `path`.gz after unpacking.
std::string contents(const std::string& path) {
  std::error_code error;
  const bool packed = !fs::exists(path, error) && fs::exists(path + ".gz", error);
  const std::string file = packed ? path + ".gz" : path;
  errno = 0;
  gzFile in = fs::is_directory(file, error) ? nullptr : gzopen(file.c_str(), "rb");
  if (in == nullptr) {
    const int why = fs::is_directory(file, error) ? EISDIR : errno;
    throw file_error(path, "", "cannot be read: " + std::string(std::strerror(why)),
                     "the folder must have all files of the data set");
  }
  std::string bytes;
  std::vector<char> buffer(1 << 20);
  int count = 0;
  while ((count = gzread(in, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0) {
    bytes.append(buffer.data(), static_cast<std::size_t>(count));
  }
  const bool whole = gzclose(in) == Z_OK && count == 0;
  if (!whole) throw file_error(file, "", "cannot be read to its end", "copy or fetch it again");
  return bytes;
}

class IdxFile {
 public:
  IdxFile(std::string path, std::uint32_t magic) : path_(std::move(path)), bytes_(contents(path_)) {
    if (word() != magic) {
      throw file_error(path_, "", "is no IDX file of unsigned bytes",
                       fmt::format("its first four bytes must be {:08x}", magic));
    }
  }
  std::uint32_t word() {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      value = value << 8 | (at_ < bytes_.size() ? static_cast<unsigned char>(bytes_[at_]) : 0);
    }
    return value;
  }
  // All bytes after the header, which must be `wanted`.
  std::vector<std::uint8_t> rest(std::uint64_t wanted) {
    if (bytes_.size() != at_ + wanted) {
      throw file_error(
          path_, "",
          fmt::format("has {} bytes where its header announces {}", bytes_.size(), at_ + wanted),
          "copy or unpack it again");
    }
    return {bytes_.begin() + static_cast<std::ptrdiff_t>(at_), bytes_.end()};
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_, bytes_;
  std::size_t at_ = 0;
};

void check_labels(const Images& images, const std::string& path, std::int64_t classes) {
  for (std::size_t i = 0; i < images.labels.size(); ++i) {
    if (images.labels[i] < classes) continue;
    throw file_error(path, "",
                     fmt::format("image {} is of class {}, and the model tells 0 to {} apart", i,
                                 images.labels[i], classes - 1),
                     "--classes sets how many");
  }
}

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
  check_labels(images, labels.path(), classes);
  return images;
}

// Reads records of a label and three planes (red, green, blue) of 32 x 32 pixels.
void add_cifar10(Images& images, const std::string& path, std::int64_t classes) {
  constexpr std::size_t side = 32, channels = 3, record = 1 + channels * side * side;
  const std::string bytes = contents(path);
  if (bytes.empty() || bytes.size() % record != 0) {
    throw file_error(
        path, "",
        fmt::format("has {} bytes, no whole number of records of {}", bytes.size(), record),
        "the binary version of CIFAR-10");
  }
  images.channels = channels;
  images.height = images.width = side;
  for (std::size_t at = 0; at < bytes.size(); at += record) {
    images.labels.push_back(static_cast<std::uint8_t>(bytes[at]));
    images.pixels.insert(images.pixels.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at + 1),
                         bytes.begin() + static_cast<std::ptrdiff_t>(at + record));
    ++images.count;
  }
  check_labels(images, path, classes);
}

ImageSets read_cifar10(const fs::path& folder, std::int64_t classes) {
  ImageSets sets;
  for (int batch = 1; batch <= 5; ++batch) {
    add_cifar10(sets.train, (folder / fmt::format("data_batch_{}.bin", batch)).string(), classes);
  }
  add_cifar10(sets.test, (folder / "test_batch.bin").string(), classes);
  return sets;
}

Images synthetic(std::int64_t count, std::uint32_t first, std::int64_t classes,
                 std::uint64_t seed) {
  constexpr std::uint32_t side = 28, block = 4;
  constexpr double contrast = 40, noise = 60;  // standard deviations, in gray levels of 256
  Images images;
  images.count = count;
  images.height = images.width = side;
  std::vector<double> patterns;  // by label and pixel
  for (std::int64_t label = 0; label < classes; ++label) {
    for (std::uint32_t pixel = 0; pixel < side * side; ++pixel) {
      const std::uint32_t y = pixel / side / block, x = pixel % side / block;
      patterns.push_back(128 +
                         contrast * normal_draw({seed, pattern_rank,
                                                 static_cast<std::uint32_t>(label), y * side + x}));
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t label = i % classes;
    const double* pattern = &patterns[static_cast<std::size_t>(label * side * side)];
    images.labels.push_back(static_cast<std::uint8_t>(label));
    for (std::uint32_t pixel = 0; pixel < side * side; ++pixel) {
      const double value =
          pattern[pixel] +
          noise * normal_draw({seed, noise_rank, first + static_cast<std::uint32_t>(i), pixel});
      images.pixels.push_back(static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0)));
    }
  }
  return images;
}

}  // namespace

ImageSets read_image_folder(const std::string& folder, std::int64_t classes) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw file_error("", "--data", fmt::format("there is no folder {}", in_quotes(folder)),
                     allowed_hint(folder, {"fashion-mnist", "synthetic",
                                           "a folder with the files of MNIST, Fashion-MNIST or "
                                           "CIFAR-10"}));
  }
  for (const char* name : {"data_batch_1.bin", "data_batch_1.bin.gz"}) {
    if (fs::exists(fs::path(folder) / name, error)) return read_cifar10(folder, classes);
  }
  ImageSets sets{read_idx(folder, "train", classes), read_idx(folder, "t10k", classes)};
  if (sets.train.height != sets.test.height || sets.train.width != sets.test.width) {
    throw file_error(folder, "", "images to train on and to test with differ in size");
  }
  return sets;
}

void keep_first(Images& images, std::int64_t count) {
  if (count <= 0 || count >= images.count) return;
  const std::int64_t size = images.channels * images.height * images.width;
  images.count = count;
  images.pixels.resize(static_cast<std::size_t>(count * size));
  images.labels.resize(static_cast<std::size_t>(count));
}

Images take_last(Images& images, std::int64_t count) {
  const std::int64_t size = images.channels * images.height * images.width;
  const std::int64_t left = images.count - count;
  Images taken{count, images.channels, images.height, images.width, {}, {}};
  taken.pixels.assign(images.pixels.begin() + left * size, images.pixels.end());
  taken.labels.assign(images.labels.begin() + left, images.labels.end());
  keep_first(images, left);
  return taken;
}

ImageSets synthetic_images(std::int64_t classes, std::uint64_t seed) {
  constexpr std::int64_t train = 2000, test = 500, most_classes = 10;
  const std::int64_t told_apart = std::min(classes, most_classes);
  return {synthetic(train, 0, told_apart, seed), synthetic(test, train, told_apart, seed)};
}

ImageSets read_data_set(const std::string& name, std::int64_t classes, std::uint64_t seed) {
  if (name == "synthetic") return synthetic_images(classes, seed);
  if (name != "fashion-mnist") return read_image_folder(name, classes);
  // The folder of Debian's package dataset-fashion-mnist.
  const std::string folder = "/usr/share/datasets/fashion-mnist";
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw file_error("", "--data", "fashion-mnist is not installed",
                     "`apt-get install dataset-fashion-mnist`, a folder with its files, or "
                     "synthetic");
  }
  return read_image_folder(folder, classes);
}

ShardOrder::ShardOrder(std::int64_t count, int ranks, int rank, std::int64_t batch,
                       std::uint64_t seed)
    : batch_(batch),
      ranks_(ranks),
      rank_(rank),
      steps_of_epoch_(count / ranks / batch),
      seed_(seed),
      key_(shuffle_rank),
      order_(static_cast<std::size_t>(count)) {}

ShardOrder::ShardOrder(std::vector<std::int64_t> own, int rank, std::int64_t batch,
                       std::uint64_t seed)
    : batch_(batch),
      ranks_(1),
      rank_(0),
      steps_of_epoch_(std::max<std::int64_t>(1, static_cast<std::int64_t>(own.size()) / batch)),
      seed_(seed),
      key_(own_order_rank - static_cast<std::uint32_t>(rank)),
      own_(std::move(own)),
      order_(own_.size()) {}

void ShardOrder::shuffle(std::int64_t epoch) {
  if (own_.empty()) {
    std::iota(order_.begin(), order_.end(), 0);
  } else {
    order_ = own_;
  }
  for (std::size_t i = order_.size(); i > 1; --i) {  // Fisher and Yates
    const double draw = uniform_draw(
        {seed_, key_, static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(i)});
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
    own.push_back(order_[static_cast<std::size_t>(i * ranks_ + rank_) % order_.size()]);
  }
  return own;
}

}  // namespace lockstep
