// lockstep-fit-collectives: predicted against measured collectives, and the fit of NetworkModel.
//   lockstep-fit-collectives          prints the tables of docs/networks.md
//   lockstep-fit-collectives --fit    searches the fitted parameters anew, then prints
//   lockstep-fit-collectives --svg    prints the picture of docs/networks.md
// Pattern search on the mean absolute log error of the fit rows from 1 MiB on, every curve weighing
// the same; four parameters, no derivative needed.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>
#include <string_view>

#include "core/errors.hpp"
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

double objective(const std::vector<CollectiveRow>& rows, const NetworkModel& model) {
  std::map<std::string, std::vector<double>> errors;
  for (const CollectiveRow& row : rows)
    if (row.use == RowUse::fit && row.bytes >= from_bytes)
      errors[row.name].push_back(log_error(row, model));
  double sum = 0;
  for (const auto& [name, list] : errors) sum += mean(list);
  return sum / static_cast<double>(errors.size());
}

NetworkModel fit(const std::vector<CollectiveRow>& rows) {
  NetworkModel model;
  const std::array parameters{&NetworkModel::bulk_hop_factor, &NetworkModel::nvlink_ll_efficiency,
                              &NetworkModel::nvlink_efficiency,
                              &NetworkModel::host_staging_efficiency};
  double best = objective(rows, model);
  for (double step = 0.2; step > 1e-3;) {
    bool improved = false;
    for (const auto parameter : parameters)
      for (const double factor : {1 + step, 1 / (1 + step)}) {
        NetworkModel trial = model;
        trial.*parameter *= factor;
        if (parameter != &NetworkModel::bulk_hop_factor && trial.*parameter > 1) continue;
        const double value = objective(rows, trial);
        if (value >= best - 1e-12) continue;
        best = value;
        model = trial;
        improved = true;
      }
    if (!improved) step /= 2;
  }
  fmt::print(
      "objective {:.4f}: bulk_hop_factor {:.3g}, nvlink_ll_efficiency {:.3g}, "
      "nvlink_efficiency {:.3g}, host_staging_efficiency {:.3g}\n\n",
      best, model.bulk_hop_factor, model.nvlink_ll_efficiency, model.nvlink_efficiency,
      model.host_staging_efficiency);
  return model;
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
          "| size | measured | model | error | bus GB/s measured | model | chosen | NCCL's "
          "table alone |\n|---:|---:|---:|---:|---:|---:|---|---:|\n");
      current = title;
    }
    const CollectivePrediction p = predict_row(row, model);
    const double error = p.seconds / row.measured - 1;
    const auto bus = [&](double seconds) {
      return bus_bandwidth(row.collective, row.ranks, row.bytes, seconds) / 1e9;
    };
    fmt::print("| {} | {} | {} | {:+.1f} % | {:.3g} | {:.3g} | {} | {:+.1f} % |\n",
               quantity_text(row.bytes, Dimension::bytes),
               human(row.measured, Dimension::seconds, 4), human(p.seconds, Dimension::seconds, 4),
               100 * error, bus(row.measured), bus(p.seconds), p.choice,
               100 * (p.tuning_only / row.measured - 1));
    const char* size = row.bytes >= from_bytes ? "1 MiB and more" : "below 1 MiB";
    const std::string use = EnumNames<RowUse>::names[static_cast<std::size_t>(row.use)];
    groups[fmt::format("{}, {}", use, size)].push_back(100 * std::abs(error));
    if (row.bytes >= from_bytes && row.use != RowUse::platform)
      groups["table alone, fit and check, 1 MiB and more"].push_back(
          100 * std::abs(p.tuning_only / row.measured - 1));
    if (row.bytes >= from_bytes && row.use != RowUse::platform)
      groups["all of fit and check, 1 MiB and more"].push_back(100 * std::abs(error));
  }
  fmt::print(
      "\n| rows | count | median error | 90th percentile | worst |\n|---|---:|---:|---:|---:|\n");
  for (const auto& [name, list] : groups)
    fmt::print("| {} | {} | {:.1f} % | {:.1f} % | {:.1f} % |\n", name, list.size(), median(list),
               quantile(list, 0.9), quantile(list, 1));
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
    else
      print_tables(rows, mode == "--fit" ? fit(rows) : NetworkModel{});
    return 0;
  } catch (const ConfigError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
