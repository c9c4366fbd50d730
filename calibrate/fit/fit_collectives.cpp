// The program lockstep-fit-collectives compares predicted with measured collectives, and fits
// NetworkModel.
//   lockstep-fit-collectives          prints the tables of docs/networks-results.md
//   lockstep-fit-collectives --fit    searches the fitted parameters anew, then prints
//   lockstep-fit-collectives --leave-out   fits without each source in turn and predicts that
//   lockstep-fit-collectives --svg    prints the picture of docs/networks-results.md
// The fit is a pattern search over seven parameters, without derivatives. It minimises the mean
// absolute log error of the rows with `use: fit` of at least 1 MiB; every source has the same
// weight.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>

#include "core/errors.hpp"
#include "core/output.hpp"
#include "core/statistics.hpp"
#include "core/units.hpp"
#include "fit/collective_rows.hpp"
#include "fit/collective_svg.hpp"

namespace lockstep {
namespace {

constexpr double from_bytes = 1 << 20;

double log_error(const CollectiveRow& row, const NetworkModel& model) {
  return std::abs(std::log(predict_row(row, model).seconds / row.measured));
}

// The mean over sources of their mean error. `left_out`: a source that does not count.
double objective(const std::vector<CollectiveRow>& rows, const NetworkModel& model,
                 const std::string& left_out) {
  std::map<std::string, std::vector<double>> errors;  // by source
  for (const CollectiveRow& row : rows)
    if (row.use == RowUse::fit && row.bytes >= from_bytes && row.source != left_out)
      errors[row.source].push_back(log_error(row, model));
  double sum = 0;
  for (const auto& [source, list] : errors) sum += mean(list);
  return sum / static_cast<double>(errors.size());
}

struct Parameter {
  const char* name;
  double NetworkModel::*value;
  double neutral;  // start of the search: NCCL's table unchanged
  double smallest, largest;
};
const std::array parameters{
    Parameter{"bulk_hop_factor", &NetworkModel::bulk_hop_factor, 1, 1, 100},
    Parameter{"nvlink_ll_efficiency", &NetworkModel::nvlink_ll_efficiency, 1, 0.01, 1},
    Parameter{"nvlink_efficiency", &NetworkModel::nvlink_efficiency, 1, 0.01, 1},
    Parameter{"host_staging_efficiency", &NetworkModel::host_staging_efficiency, 0.5, 0.01, 1},
    Parameter{"net_ll128_hop_factor", &NetworkModel::net_ll128_hop_factor, 1, 1, 100},
    Parameter{"shared_hop_factor", &NetworkModel::shared_hop_factor, 1, 1, 100},
    Parameter{"shared_tree_seconds_per_byte", &NetworkModel::shared_tree_seconds_per_byte, 1e-14, 0,
              1e-9}};

NetworkModel fit(const std::vector<CollectiveRow>& rows, const std::string& left_out = "") {
  NetworkModel model;
  for (const Parameter& p : parameters) model.*p.value = p.neutral;
  double best = objective(rows, model, left_out);
  for (double step = 0.5; step > 1e-3;) {
    bool improved = false;
    for (const Parameter& p : parameters)
      for (const double factor : {1 + step, 1 / (1 + step)}) {
        NetworkModel trial = model;
        trial.*p.value = std::clamp(trial.*p.value * factor, p.smallest, p.largest);
        const double value = objective(rows, trial, left_out);
        if (value >= best - 1e-12) continue;
        best = value;
        model = trial;
        improved = true;
      }
    if (!improved) step /= 2;
  }
  fmt::print("objective {:.4f}:", best);
  for (const Parameter& p : parameters) fmt::print(" {} {:.3g}", p.name, model.*p.value);
  fmt::print("\n\n");
  return model;
}

void print_errors(const std::map<std::string, std::vector<double>>& groups, const char* title) {
  fmt::print(
      "\n| {} | count | median error | 90th percentile | worst |\n|---|---:|---:|---:|---:|\n",
      title);
  for (const auto& [name, list] : groups)
    fmt::print("| {} | {} | {:.1f} % | {:.1f} % | {:.1f} % |\n", name, list.size(), median(list),
               quantile(list, 0.9), quantile(list, 1));
}

// Prints the errors of each source under a fit to all other sources.
void print_left_out(const std::vector<CollectiveRow>& rows) {
  std::map<std::string, std::vector<double>> groups;
  for (const CollectiveRow& row : rows)
    if (row.use == RowUse::fit && row.bytes >= from_bytes) groups[row.source];
  std::vector<double> all;
  for (auto& [source, errors] : groups) {
    const NetworkModel model = fit(rows, source);
    for (const CollectiveRow& row : rows) {
      if (row.source != source || row.bytes < from_bytes) continue;
      errors.push_back(100 * std::abs(predict_row(row, model).seconds / row.measured - 1));
    }
    all.insert(all.end(), errors.begin(), errors.end());
  }
  groups["all"] = all;
  print_errors(groups, "source left out of the fit, 1 MiB and more");
}

void print_tables(const std::vector<CollectiveRow>& rows, const NetworkModel& model) {
  std::string current;
  std::map<std::string, std::vector<double>> groups;
  for (const CollectiveRow& row : rows) {
    const std::string title =
        row.name + ", " + EnumNames<Collective>::names[static_cast<std::size_t>(row.collective)];
    if (title != current) {
      fmt::print("\n**{}** (`{}`, {}; {})\n\n", title, row.platform,
                 EnumNames<RowUse>::names[static_cast<std::size_t>(row.use)], row.source);
      fmt::print(
          "| GPUs | nodes | size | measured | model | error | bus GB/s measured | model | chosen | "
          "NCCL's table alone |\n|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|\n");
      current = title;
    }
    const CollectivePrediction p = predict_row(row, model);
    const double error = p.seconds / row.measured - 1;
    const auto bus = [&](double seconds) {
      return bus_bandwidth(row.collective, row.ranks, row.bytes, seconds) / 1e9;
    };
    std::string measured = human(row.measured, Dimension::seconds, 4);
    if (row.fast > 0)
      measured += fmt::format(" ({} .. {})", human(row.fast, Dimension::seconds, 3),
                              human(row.slow, Dimension::seconds, 3));
    fmt::print("| {} | {} | {} | {} | {} | {:+.1f} % | {:.3g} | {:.3g} | {} | {:+.1f} % |\n",
               row.ranks, row.nodes, quantity_text(row.bytes, Dimension::bytes), measured,
               human(p.seconds, Dimension::seconds, 4), 100 * error, bus(row.measured),
               bus(p.seconds), p.choice, 100 * (p.tuning_only / row.measured - 1));
    const char* size = row.bytes >= from_bytes ? "1 MiB and more" : "below 1 MiB";
    const std::string use = EnumNames<RowUse>::names[static_cast<std::size_t>(row.use)];
    groups[fmt::format("{}, {}", use, size)].push_back(100 * std::abs(error));
    if (row.bytes >= from_bytes && row.use != RowUse::platform)
      groups["table alone, fit and check, 1 MiB and more"].push_back(
          100 * std::abs(p.tuning_only / row.measured - 1));
    if (row.bytes >= from_bytes && row.use != RowUse::platform)
      groups["all of fit and check, 1 MiB and more"].push_back(100 * std::abs(error));
  }
  print_errors(groups, "rows");
}

}  // namespace
}  // namespace lockstep

int main(int count, char** arguments) {
  using namespace lockstep;
  try {
    const std::vector<CollectiveRow> rows = collective_rows();
    const std::string_view mode = count > 1 ? arguments[1] : "";
    if (mode == "--svg")
      fmt::print("{}", collective_svg(rows));
    else if (mode == "--leave-out")
      print_left_out(rows);
    else
      print_tables(rows, mode == "--fit" ? fit(rows) : NetworkModel{});
    return 0;
  } catch (const ConfigError& error) {
    print_error("{}\n", error.what());
    return 2;
  }
}
