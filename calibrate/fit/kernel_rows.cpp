// Reads kernel times by shape from CSV files, and describes each row as a kernel of the workload. A
// hash of the shape decides which fifth of the shapes is held out, so that it is the same on every
// device.
#include "fit/kernel_rows.hpp"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <sstream>

#include "core/errors.hpp"
#include "core/text_hash.hpp"

namespace lockstep {
namespace {

using Line = std::map<std::string, std::string>;

double number(const Line& line, const std::string& column) {
  return std::stod(line.at(column));
}

std::int64_t integer(const Line& line, const std::string& column) {
  return std::stoll(line.at(column));
}

std::vector<Line> read_csv(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw file_error(path, "", "cannot be opened");
  std::vector<std::string> header;
  std::vector<Line> lines;
  std::string text;
  while (std::getline(file, text)) {
    if (text.empty() || text[0] == '#') continue;
    std::vector<std::string> cells;
    std::istringstream stream(text);
    for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
    if (header.empty()) {
      header = cells;
      continue;
    }
    if (cells.size() != header.size())
      throw file_error(
          path, "",
          fmt::format("'{}' has {} cells, the header {}", text, cells.size(), header.size()));
    Line& line = lines.emplace_back();
    for (std::size_t i = 0; i < cells.size(); ++i) line[header[i]] = cells[i];
  }
  return lines;
}

KernelRow row(const Line& line, std::string kind, std::string shape) {
  KernelRow result;
  result.device = line.at("device");
  result.held_out = text_hash(kind + " " + shape) % 5 == 0;
  result.kind = std::move(kind);
  result.shape = std::move(shape);
  return result;
}

Kernel product(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, MathMode math) {
  Kernel kernel;
  kernel.kind = KernelKind::gemm;
  kernel.math = math;
  kernel.m = m;
  kernel.n = n;
  kernel.k = k;
  kernel.batch = batch;
  const double size = math == MathMode::fp32 ? 4 : 2, products = static_cast<double>(batch);
  kernel.flops = 2.0 * products * m * n * k;
  kernel.bytes_read = size * products * (static_cast<double>(m) * k + static_cast<double>(k) * n);
  kernel.bytes_written = size * products * m * n;
  return kernel;
}

KernelRow half_product(const Line& line) {
  const std::int64_t m = integer(line, "M"), n = integer(line, "N"), k = integer(line, "K");
  KernelRow r = row(line, "product fp16", fmt::format("{} x {} x {}", m, n, k));
  r.kernel = product(1, m, n, k, MathMode::fp16);
  r.element_bytes = 2;
  r.seconds = 1e-6 * number(line, "median_us");
  return r;
}

KernelRow full_product(const Line& line) {
  const std::int64_t b = integer(line, "B"), m = integer(line, "M"), n = integer(line, "N"),
                     k = integer(line, "K");
  KernelRow r = row(line, "product fp32", fmt::format("{} * {} x {} x {}", b, m, n, k));
  r.kernel = product(b, m, n, k, MathMode::fp32);
  r.seconds = 1e-6 * number(line, "time_us");
  r.with_gap = true;
  return r;
}

KernelRow convolution(const Line& line) {
  Kernel kernel;
  kernel.kind = KernelKind::convolution;
  ConvGeometry& g = kernel.conv;
  g.images = integer(line, "batch");
  g.channels_in = integer(line, "in_ch");
  g.channels_out = integer(line, "out_ch");
  g.kernel_h = g.kernel_w = static_cast<int>(integer(line, "kernel"));
  g.stride = static_cast<int>(integer(line, "stride"));
  g.height_in = g.width_in = integer(line, "in_size");
  g.height_out = g.width_out = integer(line, "out_size");
  kernel.m = g.images * g.height_out * g.width_out;
  kernel.n = g.channels_out;
  kernel.k = g.channels_in * g.kernel_h * g.kernel_w;
  kernel.flops = 2.0 * kernel.m * kernel.n * kernel.k;
  const double pixels_in = static_cast<double>(g.images) * g.height_in * g.width_in;
  kernel.bytes_read = 4 * (pixels_in * g.channels_in + static_cast<double>(kernel.n) * kernel.k);
  kernel.bytes_written = 4.0 * kernel.m * kernel.n;
  KernelRow r = row(line, "convolution fp32",
                    fmt::format("{} x {} x {}^2 to {}, filter {}, stride {}", g.images,
                                g.channels_in, g.height_in, g.channels_out, g.kernel_h, g.stride));
  r.kernel = kernel;
  const std::string& algorithm = line.at("algorithm");
  if (algorithm == "winograd") r.algorithm = Algorithm::winograd;
  if (algorithm == "implicit_gemm" || algorithm == "gemm")
    r.algorithm = Algorithm::implicit_product;
  r.seconds = 1e-6 * number(line, "time_us");
  r.with_gap = true;
  return r;
}

KernelKind streaming_kind(const std::string& op) {
  if (op == "ln" || op == "layernorm" || op == "rmsnorm") return KernelKind::normalization;
  if (op == "softmax") return KernelKind::softmax;
  return KernelKind::elementwise;
}

KernelRow stream(const Line& line, bool half) {
  const std::string& op = line.at("op");
  KernelRow r = row(line, fmt::format("{} {}", op, half ? "fp16" : "fp32"), line.at("bytes"));
  r.kernel.kind = streaming_kind(op);
  r.kernel.bytes_read = number(line, "bytes");
  r.element_bytes = half ? 2 : 4;
  r.seconds = 1e-6 * number(line, half ? "median_us" : "time_us");
  r.with_gap = !half;
  return r;
}

}  // namespace

std::vector<KernelRow> load_kernel_rows(const std::string& folder) {
  std::vector<KernelRow> rows;
  for (const Line& line : read_csv(folder + "/gemm_fp16.csv")) rows.push_back(half_product(line));
  for (const Line& line : read_csv(folder + "/gemm_fp32.csv")) rows.push_back(full_product(line));
  for (const Line& line : read_csv(folder + "/conv_fp32.csv")) rows.push_back(convolution(line));
  for (const bool half : {false, true})
    for (const Line& line :
         read_csv(folder + (half ? "/elementwise_fp16.csv" : "/elementwise_fp32.csv"))) {
      // These names mean lookups with a mask and rotations in place, which differ from the
      // workload's operators.
      if (line.at("op").find("embedding") == 0 || line.at("op") == "rope_qk") continue;
      rows.push_back(stream(line, half));
    }
  return rows;
}

}  // namespace lockstep
