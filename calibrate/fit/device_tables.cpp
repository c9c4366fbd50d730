// Prints the tables of lockstep-fit, and writes the measured kernels of the device files. Errors of
// kernels are logarithms of modelled / measured, errors of steps are modelled / measured - 1.
// Summaries are the median, the 90th percentile and the worst.
#include "fit/device_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/output.hpp"
#include "core/statistics.hpp"

namespace lockstep {
namespace {

// Added in quadrature to the error of a device whose products, or whose rows at all, nobody measured.
constexpr double derived_error = 0.10;

void print_errors(const char* title, const std::vector<double>& errors) {
  std::vector<double> absolute;
  for (const double error : errors) absolute.push_back(std::abs(error));
  if (absolute.empty()) return;
  fmt::print("{}: {} rows, median {:.1f} %, 90th percentile {:.1f} %, worst {:.1f} %\n", title,
             absolute.size(), 100 * median(absolute), 100 * quantile(absolute, 0.9),
             100 * quantile(absolute, 1));
}

double root_mean_square(const std::vector<double>& errors) {
  double sum = 0;
  for (const double error : errors) sum += error * error;
  return errors.empty() ? 0 : std::sqrt(sum / static_cast<double>(errors.size()));
}

}  // namespace

double kernel_error(const KernelCase& c, const Models& models) {
  return std::log(predicted(c.row, c.device, models) / c.row.seconds);
}

namespace {

// Largest correction as a logarithm. Rows with larger deviations say little about kernels of
// similar size.
constexpr double most_log_ratio = 0.35;

// The measured time of shorter convolutions is mostly the host's share of the call.
constexpr double least_convolution_seconds = 1e-3;

bool tells_the_kernel(const KernelRow& row) {
  return row.kernel.kind != KernelKind::convolution || row.seconds >= least_convolution_seconds;
}

// The kind of measured kernel by which the simulator corrects such rows; null if it corrects none.
const char* measured_kind(const KernelRow& row) {
  if (row.kind == "product fp16") return "half_product";
  if (row.kind == "product fp32") return "plain_product";
  if (row.kind == "convolution fp32") return "convolution";
  return nullptr;
}

// Whether kernels of this kind are corrected on this chip. Corrections do not improve products of
// an L4, and make convolutions of an A100 of at least 1 ms worse.
bool corrects(const std::string& chip, const std::string& kind) {
  return chip != "l4" && !(kind == "convolution" && chip == "a100");
}

std::array<std::int64_t, 4> sizes(const Kernel& kernel) {
  const ConvGeometry& g = kernel.conv;
  if (kernel.kind == KernelKind::convolution)
    return {g.images, g.channels_in, g.channels_out, g.height_out};
  return {kernel.batch, kernel.m, kernel.n, kernel.k};
}

MeasuredKernel measured_kernel(const KernelCase& c, const Models& models) {
  MeasuredKernel kernel;
  const auto of = sizes(c.row.kernel);
  for (std::size_t i = 0; i < of.size(); ++i)
    kernel.log2_size[i] = std::log2(static_cast<double>(of[i]));
  // Only the kernel's time counts. If the row took no longer than the host's share, the kernel is
  // merely known to be short.
  const double host = gap(c.row, models), modelled = predicted(c.row, c.device, models) - host;
  const double measured = std::max(c.row.seconds - host, 1e-3 * modelled);
  kernel.log_ratio = std::clamp(std::log(measured / modelled), -most_log_ratio, most_log_ratio);
  return kernel;
}

// The error of a prediction that the measured kernels `near` correct, as in the simulator.
double corrected_error(const KernelCase& c, const Models& models,
                       const std::vector<MeasuredKernel>& near) {
  const double host = gap(c.row, models), modelled = predicted(c.row, c.device, models) - host;
  const double ratio = std::exp(log_ratio_at(near, measured_kernel(c, models).log2_size));
  return std::log((modelled * ratio + host) / c.row.seconds);
}

std::string chip(const std::string& device) {
  return device.substr(0, device.find('-'));
}

using ByKindAndChip = std::map<std::string, std::vector<MeasuredKernel>>;

std::string kind_and_chip(const KernelRow& row) {
  return row.kind + " " + chip(row.device);
}

}  // namespace

void write_measured_kernels(const std::string& folder, const std::vector<KernelCase>& kernels,
                            const Models& models) {
  std::map<std::string, std::string> files;
  for (const KernelCase& c : kernels) {
    if (measured_kind(c.row) == nullptr || !tells_the_kernel(c.row)) continue;
    if (!corrects(chip(c.row.device), measured_kind(c.row))) continue;
    const auto of = sizes(c.row.kernel);
    files[chip(c.row.device)] +=
        fmt::format("{},{},{},{},{},{:.2f}\n", measured_kind(c.row), of[0], of[1], of[2], of[3],
                    measured_kernel(c, models).log_ratio);
  }
  for (const auto& [name, rows] : files) {
    const std::string path = folder + "/" + name + ".csv";
    write_text(path,
               "# Kernels measured one by one, by lockstep-fit --shipped --measured from "
               "calibrate/reference/kernels, which names the sources.\n"
               "# products: batch, m, n, k; convolutions (3 x 3, stride 1): images, channels in "
               "and out, "
               "edge of the output; log(measured / modelled).\n" +
                   rows);
  }
}

void print_steps(const std::vector<ReferenceCase>& cases, const Models& models,
                 const std::vector<double>& left_out) {
  fmt::print("\nrows: measured, modelled, error{}\n",
             left_out.empty() ? "" : "; error when the model is left out of the fit");
  std::vector<double> errors;
  std::map<std::string, std::vector<double>> by_device, by_source;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const ReferenceRow& row = cases[i].row;
    const double seconds = predicted(cases[i], models);
    const double error = seconds / row.step_seconds - 1;
    errors.push_back(error);
    by_device[row.device].push_back(error);
    by_source[row.source].push_back(error);
    fmt::print("  {} {:9.1f} ms {:9.1f} ms {:+6.1f} %{}\n", row.label(), 1e3 * row.step_seconds,
               1e3 * seconds, 100 * error,
               left_out.empty() ? "" : fmt::format("  {:+6.1f} %", 100 * left_out[i]));
  }
  fmt::print("\n");
  print_errors("all rows", errors);
  for (const auto& [source, list] : by_source) print_errors(("  " + source).c_str(), list);
  for (const auto& [device, list] : by_device) print_errors(("  " + device).c_str(), list);
  print_errors("leave one model out", left_out);
}

void print_left_out(const std::vector<ReferenceCase>& cases, const std::vector<LeftOut>& kinds) {
  constexpr double z90 = 1.6449;  // two-sided 90 % of a normal law
  struct Group {
    std::vector<double> signed_errors, sizes;
    int inside = 0;
  };
  fmt::print(
      "\n| left out | | rows | median, signed | median | nine in ten | worst | in the 90 % "
      "interval |\n"
      "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (const LeftOut& kind : kinds) {
    std::map<std::string, Group> groups;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const ReferenceRow& row = cases[i].row;
      const double stated = cases[i].machine.device.efficiency.relative_error;
      const double sigma = kind.kernels ? std::hypot(stated, derived_error) : stated;
      const bool inside = std::abs(std::log1p(kind.errors[i])) <= z90 * sigma;
      std::vector<std::string> names{"all"};
      if (row.source != batch_12) names.push_back("all but " + std::string(batch_12));
      if (kind.kernels || kind.of(row) == row.source) names.push_back(kind.of(row));
      for (const std::string& name : names) {
        Group& group = groups[name];
        group.signed_errors.push_back(kind.errors[i]);
        group.sizes.push_back(std::abs(kind.errors[i]));
        group.inside += inside ? 1 : 0;
      }
    }
    for (const auto& [name, group] : groups)
      fmt::print("| {} | {} | {} | {:+.1f} % | {:.1f} % | {:.1f} % | {:.1f} % | {:.0f} % |\n",
                 kind.kind, name, group.sizes.size(), 100 * median(group.signed_errors),
                 100 * median(group.sizes), 100 * quantile(group.sizes, 0.9),
                 100 * quantile(group.sizes, 1),
                 100.0 * group.inside / static_cast<double>(group.sizes.size()));
  }
}

// Prints the `efficiency:` blocks of platforms/devices/*.yaml. Their error is the root mean square
// over the family's rows, each predicted by a fit without the row's network. It is at least the
// difference between two machines of one kind (fact 136). The error of a derived device also
// includes the spread between families.
void print_blocks(const Models& models, const std::vector<ReferenceCase>& cases,
                  const std::vector<double>& left_out) {
  std::map<std::string, std::vector<double>> by_device;
  for (std::size_t i = 0; i < cases.size(); ++i)
    by_device[cases[i].row.device].push_back(left_out[i]);
  constexpr double least = 0.05, best_product = 0.95;
  for (const Family& family : families()) {
    std::vector<double> errors;
    for (const std::string& device : family.devices)
      if (by_device.count(device))
        errors.insert(errors.end(), by_device.at(device).begin(), by_device.at(device).end());
    double fitted = std::max(least, root_mean_square(errors));
    if (!family.products) fitted = std::hypot(fitted, derived_error);
    const auto print = [&](const std::string& device, const Efficiency& e, double error) {
      fmt::print(
          "  {}: {{matmul: {:.1f}%, matmul_fp32: {:.1f}%, convolution: {:.1f}%, convolution_fp32: "
          "{:.1f}%, attention: {:.1f}%, vector: {:.1f}%, "
          "memory: {:.1f}%, kernel_floor: {:.1f} us, relative_error: {:.0f}%}}\n",
          device, 100 * e.matmul, 100 * e.matmul_fp32, 100 * e.convolution,
          100 * e.convolution_fp32, 100 * e.attention, 100 * e.vector, 100 * e.memory,
          1e6 * e.kernel_floor_seconds, 100 * error);
    };
    fmt::print("\nefficiency of {}\n", family.name);
    for (const std::string& device : family.devices)
      print(device, models.devices.at(device), fitted);
    for (const Derived& derived : family.derived) {
      Efficiency e = models.devices.at(family.devices.front());
      e.matmul = derived.clock < 1 ? std::min(best_product, e.matmul * derived.clock) : e.matmul;
      e.convolution *= derived.clock;
      e.vector *= derived.clock;
      print(derived.device, e, std::hypot(fitted, derived_error));
    }
  }
}

// Prints absolute errors by kind and device, of fitted rows and of held-out rows.
void print_kernels(const std::vector<KernelCase>& kernels, const Models& models) {
  fmt::print(
      "\nkernels: median absolute error of fitted and held-out shapes, median error of all; "
      "held-out "
      "ones corrected by the fitted ones of the chip near them\n");
  std::map<std::string, std::vector<double>> fitted, held_out, corrected, all, as_shipped;
  ByKindAndChip measured;
  for (const KernelCase& c : kernels)
    if (!c.row.held_out && measured_kind(c.row) != nullptr && tells_the_kernel(c.row))
      measured[kind_and_chip(c.row)].push_back(measured_kernel(c, models));
  for (const KernelCase& c : kernels) {
    const double error = kernel_error(c, models);
    const auto add = [&](const std::string& group) {
      all[group].push_back(error);
      (c.row.held_out ? held_out : fitted)[group].push_back(std::abs(error));
      const auto near = measured.find(kind_and_chip(c.row));
      if (c.row.held_out && near != measured.end())
        corrected[group].push_back(std::abs(corrected_error(c, models, near->second)));
    };
    add(c.group);
    if (c.row.held_out && measured_kind(c.row) != nullptr) {
      const bool near = corrects(chip(c.row.device), measured_kind(c.row));
      as_shipped[c.row.kind].push_back(near ? corrected[c.group].back() : std::abs(error));
    }
    if (c.row.kernel.kind != KernelKind::convolution || !tells_the_kernel(c.row)) continue;
    add(c.group + ", from 1 ms");
  }
  for (const auto& [group, errors] : all)
    fmt::print("  {:44} {:5} rows {:5.1f} %  {:5} rows {:5.1f} %  {:+6.1f} %{}\n", group,
               fitted[group].size(), 100 * median(fitted[group]), held_out[group].size(),
               100 * median(held_out[group]), 100 * median(errors),
               corrected[group].empty()
                   ? ""
                   : fmt::format("  corrected {:5.1f} %", 100 * median(corrected[group])));
  for (const auto& [kind, errors] : as_shipped)
    fmt::print("  {:44} {:5} rows held out, corrected where the program corrects: {:5.1f} %\n",
               kind + ", all devices", errors.size(), 100 * median(errors));
}

}  // namespace lockstep
