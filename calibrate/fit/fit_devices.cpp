// The program lockstep-fit fits the shape law and the achieved fractions of the devices to the
// public measurements in calibrate/reference/: whole training steps, and kernels by shape, of which
// a fifth is held out. It prints residuals, and repeats the fit without each network, device
// and source in turn. With
// --shipped it prints the residuals of the shipped law and devices without fitting them.
#include <ceres/ceres.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <set>

#include "core/errors.hpp"
#include "core/output.hpp"
#include "fit/device_models.hpp"
#include "fit/device_tables.hpp"
#include "source_dir.hpp"

namespace lockstep {
namespace {

// One sigma of a row: the spread between runs and between machines (fact 136). The batches of 12
// were measured on unknown hosts and clocks.
constexpr double row_sigma = 0.05, batch_12_sigma = 0.25;
// Rows that are further off than this many sigmas have less influence.
constexpr double robust_width = 2;
// Kernels of one kind on one device count as at most this many independent rows with this sigma,
// because their errors come from the law and are not independent.
constexpr double kernel_group_rows = 40, convolution_group_rows = 15;
constexpr double kernel_sigma = 0.1;
// Convolutions of the reference include host work (the "convolution gap"). From call to call, this
// work varies by about so many seconds, as convolutions with short kernels show.
constexpr double convolution_noise_seconds = 1e-4;

struct Residual {
  bool operator()(double const* const* x, double* residual) const {
    Models models = base;
    for (std::size_t i = 0; i < unknowns.size(); ++i) unknowns[i]->set(models, std::exp(x[i][0]));
    residual[0] = error(models);
    return true;
  }
  std::vector<const Unknown*> unknowns;
  std::function<double(const Models&)> error;  // in sigmas
  const Models& base;
};

struct Prior {
  template <class T>
  bool operator()(const T* x, T* residual) const {
    residual[0] = (x[0] - T(std::log(unknown->start))) / T(unknown->prior);
    return true;
  }
  const Unknown* unknown;
};

// Whether the row is fitted. Batches of 12 are used only for a device that no other source covers.
// For other devices they only determine the speed of their host.
bool fits(const ReferenceRow& row) {
  return row.source != batch_12 || row.device == "rtx-2080-ti";
}

struct Cases {
  std::vector<const ReferenceCase*> steps;
  std::vector<const KernelCase*> kernels;
};

// Whether the row is fitted. Norms, softmax and fused activations are not, because the reference
// uses other kernels or shapes than PyTorch's training.
bool fits(const KernelRow& row) {
  return row.kind.find("product") == 0 || row.kind.find("convolution") == 0 ||
         row.kernel.kind == KernelKind::elementwise;
}

// The least-squares problem. Each unknown is a parameter block of size one; a row depends on the
// unknowns that have an effect on its device.
class Fit {
 public:
  Fit(const std::vector<Unknown>& list, const std::vector<double>& start, const Models& base)
      : list_(list), base_(base) {
    for (const double value : start) x_.push_back(std::log(value));
    for (std::size_t i = 0; i < list.size(); ++i) {
      problem_.AddResidualBlock(new ceres::AutoDiffCostFunction<Prior, 1, 1>(new Prior{&list[i]}),
                                nullptr, &x_[i]);
      problem_.SetParameterLowerBound(&x_[i], 0, std::log(list[i].lower));
      problem_.SetParameterUpperBound(&x_[i], 0, std::log(list[i].upper));
    }
  }

  void add(const std::string& device, const char* rows, std::unique_ptr<ceres::LossFunction> loss,
           std::function<double(const Models&)> error) {
    auto residual = std::make_unique<Residual>(Residual{{}, std::move(error), base_});
    std::vector<double*> blocks;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      const auto& devices = list_[i].devices;
      if (!list_[i].only.empty() && list_[i].only != rows) continue;
      if (!devices.empty() && std::find(devices.begin(), devices.end(), device) == devices.end())
        continue;
      residual->unknowns.push_back(&list_[i]);
      blocks.push_back(&x_[i]);
    }
    if (blocks.empty()) return;  // no unknown has an effect on the row
    ceres::NumericDiffOptions steps;
    steps.relative_step_size = 1e-3;
    auto* cost = new ceres::DynamicNumericDiffCostFunction<Residual, ceres::FORWARD>(
        residual.release(), ceres::TAKE_OWNERSHIP, steps);
    for (std::size_t i = 0; i < blocks.size(); ++i) cost->AddParameterBlock(1);
    cost->SetNumResiduals(1);
    problem_.AddResidualBlock(cost, loss.release(), blocks);
  }

  std::vector<double> solve() {
    ceres::Solver::Options options;
    options.max_num_iterations = 20;
    options.linear_solver_type = ceres::DENSE_QR;
    options.function_tolerance = 1e-4;
    options.logging_type = ceres::SILENT;
    options.num_threads = 2;
    ceres::Solver::Summary summary;
    ceres::Solve(options, &problem_, &summary);
    std::vector<double> values;
    for (const double x : x_) values.push_back(std::exp(x));
    return values;
  }

 private:
  const std::vector<Unknown>& list_;
  const Models& base_;
  std::vector<double> x_;
  ceres::Problem problem_;
};

std::vector<double> fit(const std::vector<Unknown>& list, const Cases& cases,
                        const std::vector<double>& start, const Models& base = {}) {
  Fit problem(list, start, base);
  for (const ReferenceCase* c : cases.steps) {
    const double sigma = c->row.source == batch_12 ? batch_12_sigma : row_sigma;
    problem.add(c->row.device, "steps", std::make_unique<ceres::HuberLoss>(robust_width),
                [c, sigma](const Models& models) {
                  return std::log(predicted(*c, models) / c->row.step_seconds) / sigma;
                });
  }
  std::map<std::string, double> sizes;
  for (const KernelCase* c : cases.kernels) ++sizes[c->group];
  for (const KernelCase* c : cases.kernels) {
    const bool convolution = c->row.kernel.kind == KernelKind::convolution;
    const double noise = convolution ? convolution_noise_seconds : 0;
    const double sigma = std::hypot(kernel_sigma, noise / c->row.seconds);
    const double rows = convolution ? convolution_group_rows : kernel_group_rows;
    const double weight = std::min(1.0, rows / sizes[c->group]);
    problem.add(c->row.device, "kernels",
                std::make_unique<ceres::ScaledLoss>(new ceres::CauchyLoss(1), weight,
                                                    ceres::TAKE_OWNERSHIP),
                [c, sigma](const Models& models) {
                  // The row's own algorithm is used, because the choice of the algorithm is not
                  // fitted.
                  const double seconds = predicted(c->row, c->device, models, c->row.algorithm);
                  return std::log(seconds / c->row.seconds) / sigma;
                });
  }
  return problem.solve();
}

std::vector<double> starts(const std::vector<Unknown>& list) {
  std::vector<double> values;
  for (const Unknown& unknown : list) values.push_back(unknown.start);
  return values;
}

// Fits only the unknowns of sources; all other models stay unchanged.
Models with_circumstances(const Models& models, const Cases& cases) {
  const std::vector<Unknown> list = circumstances();
  return build(list, fit(list, cases, starts(list), models), models);
}

void print_parameters(const std::vector<Unknown>& list, const std::vector<double>& values) {
  fmt::print("parameters\n");
  for (std::size_t i = 0; i < list.size(); ++i)
    fmt::print("  {:32} {:10.4g}  in [{:g}, {:g}], prior {:g} * exp(+-{:g})\n", list[i].name,
               values[i], list[i].lower, list[i].upper, list[i].start, list[i].prior);
}

// The relative error of each row under a fit without the rows that share its value of `kind`.
std::vector<double> leave_out(const std::vector<ReferenceCase>& cases, const Cases& fitted,
                              const std::vector<Unknown>& list, const std::vector<double>& values,
                              const Models& models, const LeftOut& kind) {
  std::vector<double> errors(cases.size());
  std::set<std::string> names;
  for (const ReferenceCase& c : cases) names.insert(kind.of(c.row));
  for (const std::string& name : names) {
    Cases rest;
    for (const ReferenceCase* c : fitted.steps)
      if (kind.of(c->row) != name) rest.steps.push_back(c);
    for (const KernelCase* c : fitted.kernels)
      if (!kind.kernels || c->row.device != name) rest.kernels.push_back(c);
    Models without = models;
    if (rest.steps.size() + rest.kernels.size() < fitted.steps.size() + fitted.kernels.size()) {
      without = build(list, fit(list, rest, values));
      without.old_operator_seconds = models.old_operator_seconds;
    }
    for (std::size_t i = 0; i < cases.size(); ++i)
      if (kind.of(cases[i].row) == name)
        errors[i] = predicted(cases[i], without) / cases[i].row.step_seconds - 1;
  }
  return errors;
}

void write_kernels(const std::string& path, const std::vector<KernelCase>& kernels,
                   const Models& models) {
  std::string rows = "kind,device,shape,held out,measured us,modelled us\n";
  for (const KernelCase& c : kernels)
    rows += fmt::format("{},{},\"{}\",{},{:.2f},{:.2f}\n", c.row.kind, c.row.device, c.row.shape,
                        c.row.held_out ? "yes" : "no", 1e6 * c.row.seconds,
                        1e6 * predicted(c.row, c.device, models));
  write_text(path, rows);
}

int run(const std::string& folder, bool as_shipped, const std::string& kernel_file,
        const std::string& measured) {
  const ReferenceSet set = load_reference(folder + "/single_gpu.yaml");
  std::vector<ReferenceCase> cases;
  for (const ReferenceRow& row : set.rows) {
    cases.push_back(prepare(row));
    // The fit of the law must not include corrections by measured kernels.
    if (!as_shipped) cases.back().machine.device.measured = nullptr;
  }
  std::vector<KernelCase> kernels;
  for (KernelRow& row : load_kernel_rows(folder + "/kernels")) {
    const std::string group = fmt::format("{} {}", row.kind, row.device);
    const Device device = load_device(row.device);
    kernels.push_back({std::move(row), device, group});
  }
  Cases fitted, others;
  for (const ReferenceCase& c : cases) (fits(c.row) ? fitted : others).steps.push_back(&c);
  for (const KernelCase& c : kernels)
    if (!c.row.held_out && fits(c.row)) fitted.kernels.push_back(&c);

  others.kernels = fitted.kernels;

  Models models;
  std::vector<LeftOut> left_out{
      {"model", [](const ReferenceRow& row) { return row.network(); }},
      {"device", [](const ReferenceRow& row) { return row.device; }, true},
      {"source", [](const ReferenceRow& row) { return row.source; }}};
  if (as_shipped) {
    models = with_circumstances(shipped(), others);
  } else {
    const std::vector<Unknown> list = unknowns();
    const std::vector<double> values = fit(list, fitted, starts(list));
    print_parameters(list, values);
    models = with_circumstances(build(list, values), others);
    fmt::print("  operator seconds of {} {:.4g}\n", batch_12, models.old_operator_seconds);
    for (LeftOut& kind : left_out)
      kind.errors = leave_out(cases, fitted, list, values, models, kind);
  }
  print_steps(cases, models, left_out.front().errors);
  if (!as_shipped) print_left_out(cases, left_out);
  print_kernels(kernels, models);
  if (!as_shipped) print_blocks(models, cases, left_out.front().errors);
  if (!kernel_file.empty()) write_kernels(kernel_file, kernels, models);
  if (!measured.empty()) write_measured_kernels(measured, kernels, models);
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  CLI::App app{"Fits the shape law and the devices to public measurements; prints all residuals"};
  std::string folder = LOCKSTEP_SOURCE_DIR "/calibrate/reference", kernels, measured;
  bool shipped = false;
  app.add_option("FOLDER", folder, "Folder of the measurements (default: the shipped one)");
  app.add_flag("--shipped", shipped, "Residuals of the shipped devices, without a fit");
  app.add_option("--kernels", kernels, "Writes measured and modelled kernel times, as CSV");
  app.add_option("--measured", measured,
                 "Writes the ratios of measured to modelled kernels into this folder");
  CLI11_PARSE(app, argc, argv);
  try {
    return lockstep::run(folder, shipped, kernels, measured);
  } catch (const lockstep::ConfigError& error) {
    lockstep::print_error("{}\n", error.what());
    return 2;
  }
}
