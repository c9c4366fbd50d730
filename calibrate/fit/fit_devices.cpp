// lockstep-fit: finds the shape law and the achieved fractions of the devices from the public
// measurements in calibrate/reference/, prints residuals row by row, and repeats the fit without
// each model in turn. Few parameters, all bounded to what is physically possible and all with a
// prior, so that what the rows cannot tell apart stays where the data sheets and papers put it.
#include <ceres/ceres.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <set>

#include "core/errors.hpp"
#include "core/statistics.hpp"
#include "fit/reference_rows.hpp"
#include "source_dir.hpp"

namespace lockstep {
namespace {

// One sigma of a row: run-to-run and machine-to-machine spread (fact 136).
constexpr double row_sigma = 0.05;
constexpr double robust_width = 2;  // rows further off than this many sigmas pull less and less

struct Models {
  KernelLaw law;
  std::map<std::string, Efficiency> devices;
  double megatron_operator_seconds = 0;
  double backward_share = 0;
};

struct Unknown {
  std::string name;
  double start, lower, upper;
  double prior;  // one sigma of log(value / start)
  std::function<void(Models&, double)> set;
  std::vector<std::string> devices;  // whose rows it matters for; empty = all
};

Unknown of_law(const char* name, double KernelLaw::*member, double start, double lower,
               double upper, double prior) {
  return {name,  start, lower,
          upper, prior, [member](Models& m, double value) { m.law.*member = value; },
          {}};
}

// Devices that share achieved fractions: same architecture, same kind of memory and power budget.
// Where products and attention start: fact 132 for A100 (0.87 at best) and H100 (0.80), of which
// training reaches about 0.92; attention of Dao 2023 ("FlashAttention-2"): 200 of 312 TFLOP/s on
// A100, 380 of 989 on H100. An RTX 3090 boosts to about 1.9 GHz where its data sheet's peaks
// assume 1.695; an A10 is held back by its 150 W.
struct Derived {
  std::string device;
  double clock = 1;  // sustained clock over the data sheet's, relative to the family's
};
struct Family {
  const char* name;
  double matmul, attention;
  bool products;  // has rows that tell the speed of matrix products, not of convolutions alone
  std::vector<std::string> devices;
  std::vector<Derived> derived;  // devices without rows that take these fractions over
  double clock = 1;              // sustained over the data sheet's
};
const std::vector<Family>& families() {
  // An A10G counts its peak like an RTX 3090 (fp32 accumulation at half rate) but keeps to its
  // clock.
  static const std::vector<Family> list{
      {"volta", 0.75, 0.45, false, {"v100-sxm2-32gb"}, {{"v100-sxm2-16gb"}, {"t4"}}},
      {"ampere-hbm",
       0.80,
       0.65,
       true,
       {"a100-sxm4-40gb", "a100-sxm4-80gb", "a100-pcie-80gb"},
       {{"a100-pcie-40gb"}}},
      {"rtx-3090", 0.95, 0.65, true, {"rtx-3090"}, {{"a10g", 1695.0 / 1950}}, 1950.0 / 1695},
      {"a10", 0.70, 0.50, false, {"a10"}, {{"l4"}, {"l40s"}}},
      {"hopper",
       0.74,
       0.38,
       false,
       {"h100-pcie-80gb", "h100-sxm5-80gb"},
       {{"h200-sxm"}, {"b200-sxm"}}}};
  return list;
}

Unknown of_family(const Family& family, const char* what, double Efficiency::*member, double start,
                  double lower, double upper, double prior) {
  return {fmt::format("{}.{}", family.name, what),
          start,
          lower,
          upper,
          prior,
          [devices = family.devices, member](Models& m, double value) {
            for (const std::string& device : devices) m.devices[device].*member = value;
          },
          family.devices};
}

std::vector<Unknown> unknowns() {
  std::vector<Unknown> list{
      of_law("smoothing", &KernelLaw::smoothing, 4, 1, 16, 0.5),
      of_law("tile_reuse", &KernelLaw::tile_reuse, 12, 1, 60, 0.5),
      of_law("tile_fill_seconds", &KernelLaw::tile_fill_seconds, 1.5e-6, 0.2e-6, 8e-6, 0.7),
      of_law("wave_tail", &KernelLaw::wave_tail, 0.7, 0.2, 1, 0.3),
      of_law("weight_gradient", &KernelLaw::weight_gradient, 0.8, 0.3, 1, 0.2),
      of_law("attention_backward", &KernelLaw::attention_backward, 0.85, 0.5, 1, 0.1),
      of_law("flash_attention_1", &KernelLaw::flash_attention_1, 0.55, 0.3, 1, 0.15),
      of_law("vector_weight_gradient", &KernelLaw::vector_weight_gradient, 0.4, 0.05, 1, 0.7),
      of_law("vector_overhead_taps", &KernelLaw::vector_overhead_taps, 8, 0.5, 80, 1.0),
      of_law("winograd", &KernelLaw::winograd, 1.5, 1, 2.25, 0.2),
      of_law("normalization_traffic", &KernelLaw::normalization_traffic, 1, 0.8, 2, 0.2),
      of_law("elements_per_clock", &KernelLaw::elements_per_clock, 8, 2, 40, 0.5),
      of_law("copy_traffic", &KernelLaw::copy_traffic, 1, 0.3, 3, 0.3),
      // Depthwise rows exist for one device only. Its work per multiprocessor and clock holds for
      // all, at the clock that each sustains.
      {"vector",
       0.25,
       0.02,
       0.9,
       0.7,
       [](Models& m, double value) {
         for (const Family& family : families())
           for (const std::string& device : family.devices)
             m.devices[device].vector = value * family.clock;
       },
       {}},
      {"megatron operator seconds",
       20e-6,
       4e-6,
       100e-6,
       1.0,
       [](Models& m, double value) { m.megatron_operator_seconds = value; },
       {"a100-sxm4-80gb"}},
      {"backward share of an operator",
       0.5,
       0.15,
       1.0,
       0.3,
       [](Models& m, double value) { m.backward_share = value; },
       {}},
  };
  for (const Family& f : families()) {
    list.push_back(of_family(f, "matmul", &Efficiency::matmul, f.matmul, 0.5, 1.15, 0.1));
    list.push_back(of_family(f, "convolution", &Efficiency::convolution, 0.75, 0.3, 1.15, 0.2));
    list.push_back(of_family(f, "attention", &Efficiency::attention, f.attention, 0.2, 0.85, 0.05));
    list.push_back(of_family(f, "memory", &Efficiency::memory, 0.87, 0.6, 0.95, 0.05));
  }
  return list;
}

Models build(const std::vector<Unknown>& list, const std::vector<double>& values) {
  Models models;
  for (std::size_t i = 0; i < list.size(); ++i) list[i].set(models, values[i]);
  return models;
}

double predicted(const ReferenceCase& reference, const Models& models) {
  Machine machine = reference.machine;
  const auto device = models.devices.find(machine.device.name);
  if (device != models.devices.end()) machine.device.efficiency = device->second;
  Framework framework = reference.row.framework;
  if (framework.name == FrameworkKind::megatron)
    framework.operator_seconds = models.megatron_operator_seconds;
  framework.backward_share = models.backward_share;
  return predict(reference, machine, framework, models.law);
}

// A row depends on the unknowns that matter for its device, each a parameter block of size one.
struct Residual {
  bool operator()(double const* const* x, double* residual) const {
    Models models;
    for (std::size_t i = 0; i < unknowns.size(); ++i) unknowns[i]->set(models, std::exp(x[i][0]));
    residual[0] = std::log(predicted(*reference, models) / reference->row.step_seconds) / row_sigma;
    return true;
  }
  std::vector<const Unknown*> unknowns;
  const ReferenceCase* reference;
};

struct Prior {
  template <class T>
  bool operator()(const T* x, T* residual) const {
    residual[0] = (x[0] - T(std::log(unknown->start))) / T(unknown->prior);
    return true;
  }
  const Unknown* unknown;
};

std::vector<double> fit(const std::vector<Unknown>& list,
                        const std::vector<const ReferenceCase*>& cases,
                        const std::vector<double>& start) {
  std::vector<double> x(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) x[i] = std::log(start[i]);
  ceres::Problem problem;
  for (std::size_t i = 0; i < list.size(); ++i) {
    problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Prior, 1, 1>(new Prior{&list[i]}),
                             nullptr, &x[i]);
    problem.SetParameterLowerBound(&x[i], 0, std::log(list[i].lower));
    problem.SetParameterUpperBound(&x[i], 0, std::log(list[i].upper));
  }
  ceres::NumericDiffOptions steps;
  steps.relative_step_size = 1e-3;
  for (const ReferenceCase* reference : cases) {
    auto* residual = new Residual{{}, reference};
    std::vector<double*> blocks;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto& devices = list[i].devices;
      if (!devices.empty() &&
          std::find(devices.begin(), devices.end(), reference->row.device) == devices.end())
        continue;
      residual->unknowns.push_back(&list[i]);
      blocks.push_back(&x[i]);
    }
    auto* cost = new ceres::DynamicNumericDiffCostFunction<Residual, ceres::FORWARD>(
        residual, ceres::TAKE_OWNERSHIP, steps);
    for (std::size_t i = 0; i < blocks.size(); ++i) cost->AddParameterBlock(1);
    cost->SetNumResiduals(1);
    problem.AddResidualBlock(cost, new ceres::HuberLoss(robust_width), blocks);
  }
  ceres::Solver::Options options;
  options.max_num_iterations = 30;
  options.linear_solver_type = ceres::DENSE_QR;
  options.function_tolerance = 1e-5;
  options.logging_type = ceres::SILENT;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  std::vector<double> values(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) values[i] = std::exp(x[i]);
  return values;
}

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

// The `efficiency:` blocks of platforms/devices/*.yaml. The stated error is the root mean square
// over the family's rows when their network is left out of the fit, at least what two machines of
// one kind differ by (fact 136); a derived device's is larger by the spread between families.
void print_blocks(const Models& models,
                  const std::map<std::string, std::vector<double>>& by_device) {
  constexpr double least = 0.05, unseen = 0.10, best_product = 0.95;
  for (const Family& family : families()) {
    std::vector<double> errors;
    for (const std::string& device : family.devices)
      if (by_device.count(device))
        errors.insert(errors.end(), by_device.at(device).begin(), by_device.at(device).end());
    double fitted = std::max(least, root_mean_square(errors));
    if (!family.products) fitted = std::hypot(fitted, unseen);
    const auto print = [&](const std::string& device, const Efficiency& e, double error) {
      fmt::print(
          "  {}: {{matmul: {:.1f}%, convolution: {:.1f}%, attention: {:.1f}%, vector: {:.1f}%, "
          "memory: {:.1f}%, kernel_floor: 3 us, relative_error: {:.0f}%}}\n",
          device, 100 * e.matmul, 100 * e.convolution, 100 * e.attention, 100 * e.vector,
          100 * e.memory, 100 * error);
    };
    fmt::print("\nefficiency of {}\n", family.name);
    for (const std::string& device : family.devices)
      print(device, models.devices.at(device), fitted);
    for (const Derived& derived : family.derived) {
      Efficiency e = models.devices.at(family.devices.front());
      e.matmul = derived.clock < 1 ? std::min(best_product, e.matmul * derived.clock) : e.matmul;
      e.convolution *= derived.clock;
      e.vector *= derived.clock;
      print(derived.device, e, std::hypot(fitted, unseen));
    }
  }
}

int run(const std::string& path) {
  const ReferenceSet set = load_reference(path);
  std::vector<ReferenceCase> cases;
  for (const ReferenceRow& row : set.rows) cases.push_back(prepare(row));
  const std::vector<Unknown> list = unknowns();
  std::vector<const ReferenceCase*> all;
  for (const ReferenceCase& c : cases) all.push_back(&c);
  std::vector<double> start;
  for (const Unknown& unknown : list) start.push_back(unknown.start);
  const std::vector<double> values = fit(list, all, start);
  const Models models = build(list, values);

  fmt::print("parameters\n");
  for (std::size_t i = 0; i < list.size(); ++i)
    fmt::print("  {:32} {:10.4g}  in [{:g}, {:g}], prior {:g} * exp(+-{:g})\n", list[i].name,
               values[i], list[i].lower, list[i].upper, list[i].start, list[i].prior);

  std::set<std::string> names;
  for (const ReferenceCase& c : cases) names.insert(c.row.network());
  std::map<const ReferenceCase*, double> left_out;
  for (const std::string& name : names) {
    std::vector<const ReferenceCase*> rest;
    for (const ReferenceCase& c : cases)
      if (c.row.network() != name) rest.push_back(&c);
    const Models without = build(list, fit(list, rest, values));
    for (const ReferenceCase& c : cases)
      if (c.row.network() == name) left_out[&c] = predicted(c, without) / c.row.step_seconds - 1;
  }

  fmt::print("\nrows: measured, fitted, error; error when the model is left out of the fit\n");
  std::vector<double> errors, out_errors;
  std::map<std::string, std::vector<double>> by_device, by_source, out_by_device;
  for (const ReferenceCase& c : cases) {
    const double seconds = predicted(c, models);
    const double error = seconds / c.row.step_seconds - 1;
    errors.push_back(error);
    out_errors.push_back(left_out[&c]);
    by_device[c.row.device].push_back(error);
    by_source[c.row.source].push_back(error);
    out_by_device[c.row.device].push_back(left_out[&c]);
    fmt::print("  {} {:9.1f} ms {:9.1f} ms {:+6.1f} %  {:+6.1f} %\n", c.row.label(),
               1e3 * c.row.step_seconds, 1e3 * seconds, 100 * error, 100 * left_out[&c]);
  }
  fmt::print("\n");
  print_errors("fit", errors);
  for (const auto& [source, list_of] : by_source) print_errors(("  " + source).c_str(), list_of);
  for (const auto& [device, list_of] : by_device) print_errors(("  " + device).c_str(), list_of);
  print_errors("leave one model out", out_errors);
  print_blocks(models, out_by_device);
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const std::string path =
      argc > 1 ? argv[1] : LOCKSTEP_SOURCE_DIR "/calibrate/reference/single_gpu.yaml";
  try {
    return lockstep::run(path);
  } catch (const lockstep::ConfigError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
