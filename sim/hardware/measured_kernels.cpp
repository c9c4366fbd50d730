// Reads the table of measured kernels that a device file names, and interpolates in it. A line of
// the table is KIND,SIZE,SIZE,SIZE,SIZE,LOG_RATIO; lines that begin with # are comments.
#include "hardware/measured_kernels.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <sstream>

#include "core/errors.hpp"
#include "core/file_text.hpp"

namespace lockstep {

namespace {

// Weight of the model itself in log_ratio_at().
constexpr double weight_of_the_law = 0.3;
// octaves squared; a kernel beyond would have a weight below 1.3e-4 and is ignored
constexpr double nothing_beyond = 9;

// Removes ",NUMBER" from the front of `rest`; returns false if `rest` does not begin so.
bool read_number(std::string_view& rest, double& value) {
  if (rest.empty() || rest.front() != ',') return false;
  const char* const end = rest.data() + rest.size();
  const auto [after, error] = std::from_chars(rest.data() + 1, end, value);
  if (error != std::errc{}) return false;
  rest = {after, static_cast<std::size_t>(end - after)};
  return true;
}

// The list for the kind that a line names; null if there is no such kind.
std::vector<MeasuredKernel>* list_of(MeasuredKernels& kernels, std::string_view kind) {
  if (kind == "half_product") return &kernels.half_products;
  if (kind == "plain_product") return &kernels.plain_products;
  if (kind == "convolution") return &kernels.convolutions;
  return nullptr;
}

// The error about a line that is no measurement.
ConfigError misread(const std::string& path, int number, const std::string& line) {
  Diagnostic diagnostic;
  diagnostic.where = {path, number, 1};
  diagnostic.message = fmt::format("{} is no measured kernel", in_quotes(line));
  diagnostic.hint =
      "half_product, plain_product or convolution, four sizes, log(measured / modelled)";
  return ConfigError(diagnostic);
}

}  // namespace

MeasuredKernels read_measured_kernels(const std::string& path) {
  std::istringstream file(file_text(path, most_of_a_table));
  MeasuredKernels kernels;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    std::string_view rest = line;
    const std::string_view kind = rest.substr(0, rest.find(','));
    rest.remove_prefix(kind.size());
    MeasuredKernel kernel;
    bool good = list_of(kernels, kind) != nullptr;
    for (double& size : kernel.log2_size) {
      good = good && read_number(rest, size) && size >= 1;
      if (good) size = std::log2(size);
    }
    good = good && read_number(rest, kernel.log_ratio) && rest.empty();
    if (!good) throw misread(path, number, line);
    list_of(kernels, kind)->push_back(kernel);
  }
  return kernels;
}

double log_ratio_at(const std::vector<MeasuredKernel>& kernels,
                    const std::array<double, 4>& log2_size) {
  double sum = 0, weights = weight_of_the_law;
  for (const MeasuredKernel& kernel : kernels) {
    double distance = 0;
    for (std::size_t i = 0; i < log2_size.size(); ++i)
      distance += (log2_size[i] - kernel.log2_size[i]) * (log2_size[i] - kernel.log2_size[i]);
    if (distance > nothing_beyond) continue;
    const double weight = std::exp(-distance);
    sum += weight * kernel.log_ratio;
    weights += weight;
  }
  return sum / weights;
}

}  // namespace lockstep
