// Converts images to batches of the network's input shape: normalized, enlarged or averaged down,
// padded, and with the network's number of channels. Images that are enlarged are handled pixel by
// pixel, because a dozen small ATen calls would take as long as a layer of a small network.
#include "runs/training_data.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/errors.hpp"

namespace lockstep {

namespace {

// Reads the data set of options.data and checks that it fits the model and the ranks.
ImageSets load_data(const TrainOptions& options, const TrainingStep& step) {
  if (step.input_shape.size() != 3) {
    throw file_error("", "--data", fmt::format("{} does not read images", step.model));
  }
  const std::int64_t classes = output_classes(step);
  ImageSets sets = read_data_set(options.data, classes, static_cast<std::uint64_t>(options.seed));
  if (sets.train.count < options.ranks * step.samples) {
    throw file_error("", "--data",
                     fmt::format("{} images are no batch of {} for each of {} ranks",
                                 sets.train.count, step.samples, options.ranks));
  }
  return sets;
}

}  // namespace

void check_data(const TrainOptions& options, const TrainingStep& step) {
  if (!options.data.empty()) (void)load_data(options, step);
}

ImageBatches::ImageBatches(const Images& train, const TrainingStep& step, at::Device device)
    : shape_(step.input_shape), device_(device), type_(at::kFloat) {
  if (parameter_bytes(step.precision) == 2) {
    type_ = step.precision == Precision::pure_fp16 ? at::kHalf : at::kBFloat16;
  }
  double sum = 0, squares = 0;
  for (const std::uint8_t pixel : train.pixels) {
    sum += pixel;
    squares += double{1} * pixel * pixel;
  }
  const auto count = static_cast<double>(train.pixels.size());
  mean_ = sum / count;
  const double variance = squares / count - mean_ * mean_;
  if (variance > 0) deviation_ = std::sqrt(variance);
  const at::Tensor levels = at::arange(256, at::kFloat).sub_(mean_).div_(deviation_);
  values_.assign(levels.data_ptr<float>(), levels.data_ptr<float>() + levels.numel());
}

// The images at `indices`, enlarged by `factor` and centred on black.
at::Tensor ImageBatches::enlarged(const Images& images, const std::vector<std::int64_t>& indices,
                                  std::int64_t factor) const {
  const auto samples = static_cast<std::int64_t>(indices.size());
  const std::int64_t channels = shape_[0], height = shape_[1], width = shape_[2];
  const std::int64_t top = (height - factor * images.height) / 2,
                     left = (width - factor * images.width) / 2;
  at::Tensor values = at::full({samples, channels, height, width}, values_[0], at::kFloat);
  float* plane = values.data_ptr<float>();
  for (const std::int64_t image : indices) {
    for (std::int64_t channel = 0; channel < channels; ++channel, plane += height * width) {
      const std::int64_t of_image = images.channels == 1 ? 0 : channel;
      const std::uint8_t* pixel = images.pixels.data() + (image * images.channels + of_image) *
                                                             images.height * images.width;
      for (std::int64_t row = 0; row < images.height; ++row) {
        float* first = plane + (top + factor * row) * width + left;
        float* to = first;
        for (std::int64_t column = 0; column < images.width; ++column, ++pixel) {
          for (std::int64_t copy = 0; copy < factor; ++copy) *to++ = values_[*pixel];
        }
        for (std::int64_t copy = 1; copy < factor; ++copy)
          std::copy(first, to, first + copy * width);
      }
    }
  }
  return values;
}

Batch ImageBatches::make(const Images& images, const std::vector<std::int64_t>& indices) const {
  const at::NoGradGuard no_gradients;
  const auto samples = static_cast<std::int64_t>(indices.size());
  const std::int64_t height = shape_[1], width = shape_[2];
  const std::int64_t factor = std::min(height / images.height, width / images.width);
  at::Tensor target = at::empty({samples}, at::kLong);
  for (std::int64_t i = 0; i < samples; ++i) {
    target.data_ptr<std::int64_t>()[i] =
        images.labels[static_cast<std::size_t>(indices[static_cast<std::size_t>(i)])];
  }
  if (factor > 0 && (images.channels == 1 || images.channels == shape_[0])) {
    return {enlarged(images, indices, factor).to(type_).to(device_), target.to(device_)};
  }
  const std::int64_t size = images.channels * images.height * images.width;
  at::Tensor bytes = at::empty({samples, images.channels, images.height, images.width}, at::kByte);
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::int64_t image = indices[static_cast<std::size_t>(i)];
    std::memcpy(bytes.data_ptr<std::uint8_t>() + i * size, images.pixels.data() + image * size,
                static_cast<std::size_t>(size));
  }
  at::Tensor values = bytes.to(at::kFloat);
  if (images.channels != 1 && images.channels != shape_[0]) values = values.mean(1, true);
  if (factor == 0) {
    values = at::adaptive_avg_pool2d(values, {height, width});
  } else {
    values = values.repeat_interleave(factor, 2).repeat_interleave(factor, 3);
    const std::int64_t rows = height - values.size(2), columns = width - values.size(3);
    values = at::constant_pad_nd(
        values, {columns / 2, columns - columns / 2, rows / 2, rows - rows / 2}, 0);
  }
  values = values.sub_(mean_).div_(deviation_).expand({-1, shape_[0], -1, -1});
  return {values.contiguous().to(type_).to(device_), target.to(device_)};
}

TrainingData::TrainingData(const TrainOptions& options, const TrainingStep& step, int rank)
    : rank_(rank), ranks_(options.ranks) {
  const at::Device device(options.device);
  const auto seed = static_cast<std::uint64_t>(options.seed);
  if (options.data.empty()) {
    batch_ = random_batch(step, device, seed + static_cast<std::uint64_t>(rank));
    return;
  }
  ImageSets sets = load_data(options, step);
  ImageBatches batches(sets.train, step, device);
  ShardOrder order(sets.train.count, options.ranks, rank, step.samples, seed);
  images_ = std::make_unique<RealImages>(
      RealImages{std::move(sets), std::move(batches), std::move(order)});
}

const Batch& TrainingData::batch(std::int64_t step) {
  if (images_) {
    batch_ = {};
    batch_ = images_->batches.make(images_->sets.train, images_->order.indices(step));
  }
  return batch_;
}

std::int64_t count_right(RealNetwork& network, const ImageBatches& batches, const Images& images,
                         std::int64_t count, std::int64_t first, std::int64_t every,
                         std::int64_t* judged) {
  const at::NoGradGuard no_gradients;
  network.set_training(false);
  std::int64_t right = 0;
  std::vector<std::int64_t> indices;
  const auto classify = [&] {
    if (indices.empty()) return;
    const Batch batch = batches.make(images, indices);
    (void)network.forward(batch);
    right += network.logits().argmax(-1).eq(batch.target).sum().item<std::int64_t>();
    if (judged != nullptr) *judged += static_cast<std::int64_t>(indices.size());
    indices.clear();
  };
  for (std::int64_t image = first; image < count; image += every) {
    indices.push_back(image);
    if (static_cast<std::int64_t>(indices.size()) == network.step().samples) classify();
  }
  classify();
  network.set_training(true);
  return right;
}

void TrainingData::judge(RealNetwork& network, RankReport& report) const {
  if (!images_) return;
  const Images& test = images_->sets.test;
  report.test_right +=
      count_right(network, images_->batches, test, test.count, rank_, ranks_, &report.test_judged);
}

}  // namespace lockstep
