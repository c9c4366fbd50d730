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
#include "reference_rows.hpp"

namespace lockstep {
namespace {

// One sigma of a row: run-to-run and machine-to-machine spread (fact 136).
constexpr double row_sigma = 0.05;
constexpr double robust_width = 2;  // rows further off than this many sigmas pull less and less

struct Models {
  KernelLaw law;
  std::map<std::string, Efficiency> devices;
  double megatron_operator_seconds = 0;
};

struct Unknown {
  std::string name;
  double start, lower, upper;
  double prior;  // one sigma of log(value / start)
  std::function<void(Models&, double)> set;
  std::vector<std::string> devices;  // whose rows it matters for; empty = all
};

Unknown of_law(const char* name, double KernelLaw::*member, double lower, double upper,
               double prior) {
  return {name,  KernelLaw{}.*member,
          lower, upper,
          prior, [member](Models& m, double value) { m.law.*member = value; },
          {}};
}

// Devices that share an achieved fraction: same architecture, same memory technology.
struct Family {
  const char* name;
  std::vector<std::string> devices;
};
const std::vector<Family>& families() {
  static const std::vector<Family> list{
      {"volta", {"v100-sxm2-32gb"}},
      {"ampere-hbm", {"a100-sxm4-40gb", "a100-sxm4-80gb", "a100-pcie-80gb"}},
      {"ampere-gddr", {"rtx-3090", "a10"}},
      {"hopper", {"h100-pcie-80gb", "h100-sxm5-80gb"}}};
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
      of_law("smoothing", &KernelLaw::smoothing, 1, 16, 0.5),
      of_law("tile_reuse", &KernelLaw::tile_reuse, 1, 60, 0.5),
      of_law("tile_prologue", &KernelLaw::tile_prologue, 8, 400, 0.7),
      of_law("weight_gradient", &KernelLaw::weight_gradient, 0.3, 1, 0.2),
      of_law("attention_backward", &KernelLaw::attention_backward, 0.5, 1, 0.1),
      of_law("vector_weight_gradient", &KernelLaw::vector_weight_gradient, 0.05, 1, 0.7),
      of_law("normalization_traffic", &KernelLaw::normalization_traffic, 0.8, 2, 0.2),
      of_law("elements_per_clock", &KernelLaw::elements_per_clock, 2, 40, 0.5),
      of_law("copy_traffic", &KernelLaw::copy_traffic, 0.3, 3, 0.3),
      {"megatron operator seconds",
       20e-6,
       4e-6,
       100e-6,
       1.0,
       [](Models& m, double value) { m.megatron_operator_seconds = value; },
       {"a100-sxm4-80gb"}},
  };
  for (const Family& family : families()) {
    list.push_back(of_family(family, "matmul", &Efficiency::matmul, 0.82, 0.5, 0.95, 0.1));
    list.push_back(
        of_family(family, "convolution", &Efficiency::convolution, 0.70, 0.3, 0.95, 0.2));
    list.push_back(of_family(family, "attention", &Efficiency::attention, 0.60, 0.2, 0.85, 0.15));
    list.push_back(of_family(family, "vector", &Efficiency::vector, 0.35, 0.02, 0.9, 0.7));
    list.push_back(of_family(family, "memory", &Efficiency::memory, 0.87, 0.6, 0.95, 0.05));
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

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void print_errors(const char* title, const std::vector<double>& errors) {
  std::vector<double> absolute;
  for (const double error : errors) absolute.push_back(std::abs(error));
  std::sort(absolute.begin(), absolute.end());
  if (absolute.empty()) return;
  fmt::print("{}: {} rows, median {:.1f} %, 90th percentile {:.1f} %, worst {:.1f} %\n", title,
             absolute.size(), 100 * median(absolute),
             100 * absolute[(absolute.size() - 1) * 9 / 10], 100 * absolute.back());
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
  for (const ReferenceCase& c : cases) names.insert(c.row.model);
  std::map<const ReferenceCase*, double> left_out;
  for (const std::string& name : names) {
    std::vector<const ReferenceCase*> rest;
    for (const ReferenceCase& c : cases)
      if (c.row.model != name) rest.push_back(&c);
    const Models without = build(list, fit(list, rest, values));
    for (const ReferenceCase& c : cases)
      if (c.row.model == name) left_out[&c] = predicted(c, without) / c.row.step_seconds - 1;
  }

  fmt::print("\nrows: measured, fitted, error; error when the model is left out of the fit\n");
  std::vector<double> errors, out_errors;
  std::map<std::string, std::vector<double>> by_device, by_source;
  for (const ReferenceCase& c : cases) {
    const double seconds = predicted(c, models);
    const double error = seconds / c.row.step_seconds - 1;
    errors.push_back(error);
    out_errors.push_back(left_out[&c]);
    by_device[c.row.device].push_back(error);
    by_source[c.row.source].push_back(error);
    fmt::print("  {} {:9.1f} ms {:9.1f} ms {:+6.1f} %  {:+6.1f} %\n", c.row.label(),
               1e3 * c.row.step_seconds, 1e3 * seconds, 100 * error, 100 * left_out[&c]);
  }
  fmt::print("\n");
  print_errors("fit", errors);
  for (const auto& [source, list_of] : by_source) print_errors(("  " + source).c_str(), list_of);
  for (const auto& [device, list_of] : by_device) print_errors(("  " + device).c_str(), list_of);
  print_errors("leave one model out", out_errors);
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
