// Reads platforms/measurements/collectives.yaml, and predicts each row with the network model. If
// the measuring tool launches several ranks from one process, a row takes at least the time of
// these launches.
#include "fit/collective_rows.hpp"

#include <algorithm>
#include <map>

#include "core/data.hpp"
#include "core/describe.hpp"

namespace lockstep {
namespace {

// Seconds that one process needs for each rank that it launches: nccl-tests -g 4 takes 23.4 us for
// 8 bytes, -g 8 takes 43.8 us for 32 KiB, one rank per process 9.8 us (curves of the file).
constexpr double launch_seconds = 5.6e-6;

struct CurveFile {
  std::string name, platform, source, licence, note;
  Collective collective = Collective::all_reduce;
  int ranks = 2, nodes = 1, per_process = 1;
  RowUse use = RowUse::check;
  std::vector<double> bytes, times;
  double peak = 0;  // bus bandwidth to which shares_of_peak refer
  std::vector<double> shares_of_peak;
};
struct BandwidthFile {
  std::string name, platform, source, note;
  Collective collective = Collective::all_reduce;
  int ranks = 2, nodes = 1;
  RowUse use = RowUse::check;
  double bytes = 0, bus_bandwidth = 0, low = 0, high = 0;
};
struct MeasurementsFile {
  std::vector<CurveFile> curves;
  std::vector<BandwidthFile> bandwidths;
};

template <class Visitor, class Entry>
void describe_head(Visitor& v, Entry& e) {
  v.field("name", e.name, "Measured collective.", {.required = true});
  v.field("platform", e.platform, "A platform of the repository.", {.required = true});
  v.field("collective", e.collective, "Which collective.", {.required = true});
  v.field("ranks", e.ranks, "GPUs.", {.min = 2, .max = 1e6, .required = true});
  v.field("nodes", e.nodes, "Nodes.", {.min = 1, .max = 1e6});
  v.field("use", e.use, "fit, check, or platform: went into the platform file.");
  v.field("source", e.source, "Where from.", {.required = true});
  v.field("note", e.note, "Further facts about the measurement.");
}

template <class Visitor>
void describe(Visitor& v, CurveFile& c) {
  describe_head(v, c);
  v.field("licence", c.licence, "Address of the text with the figures.");
  v.field("per_process", c.per_process, "Ranks one process launches.", {.min = 1, .max = 64});
  v.field("bytes", c.bytes, "Sizes.",
          {.unit = Dimension::bytes, .min = 1, .max = 1e15, .required = true});
  v.field("times", c.times, "Times.", {.unit = Dimension::seconds, .min = 1e-9, .max = 1e6});
  v.field("peak", c.peak, "Bus bandwidth that shares_of_peak are of.",
          {.unit = Dimension::bytes_per_second, .min = 0, .max = 1e15});
  v.field("shares_of_peak", c.shares_of_peak,
          "Bus bandwidth over the peak, by size; in place of times.",
          {.unit = Dimension::fraction, .min = 1e-6, .max = 1});
}

template <class Visitor>
void describe(Visitor& v, BandwidthFile& b) {
  describe_head(v, b);
  v.field("bytes", b.bytes, "Size.",
          {.unit = Dimension::bytes, .min = 1, .max = 1e15, .required = true});
  v.field("bus_bandwidth", b.bus_bandwidth, "As nccl-tests defines it.",
          {.unit = Dimension::bytes_per_second, .min = 1, .max = 1e15, .required = true});
  v.field("low", b.low, "5th percentile over placements; 0 = not known.",
          {.unit = Dimension::bytes_per_second, .min = 0, .max = 1e15});
  v.field("high", b.high, "95th percentile.",
          {.unit = Dimension::bytes_per_second, .min = 0, .max = 1e15});
}

template <class Visitor>
void describe(Visitor& v, MeasurementsFile& m) {
  v.field("curves", m.curves, "Times by size.");
  v.field("bandwidths", m.bandwidths, "Single bus bandwidths.");
}

const Machine& machine_of(const std::string& platform) {
  static std::map<std::string, Machine> machines;
  const auto found = machines.find(platform);
  if (found != machines.end()) return found->second;
  return machines.emplace(platform, load_machine(platform)).first->second;
}

}  // namespace

std::vector<CollectiveRow> collective_rows() {
  const auto file =
      read_file<MeasurementsFile>(data_folder("platforms/measurements") + "/collectives.yaml");
  std::vector<CollectiveRow> rows;
  const auto seconds_at = [](const auto& head, double bytes, double bandwidth) {
    return bus_bandwidth(head.collective, head.ranks, bytes, 1) / bandwidth;
  };
  for (const CurveFile& c : file.curves)
    for (std::size_t i = 0; i < c.bytes.size(); ++i) {
      const double seconds =
          c.peak > 0 ? seconds_at(c, c.bytes[i], c.peak * c.shares_of_peak.at(i)) : c.times.at(i);
      rows.push_back({c.name, c.platform, c.collective, c.ranks, c.nodes, c.per_process, c.use,
                      c.bytes[i], seconds, 0, 0, c.source});
    }
  for (const BandwidthFile& b : file.bandwidths) {
    const bool spread = b.low > 0 && b.high > 0;
    rows.push_back({b.name, b.platform, b.collective, b.ranks, b.nodes, 1, b.use, b.bytes,
                    seconds_at(b, b.bytes, b.bus_bandwidth),
                    spread ? seconds_at(b, b.bytes, b.high) : 0,
                    spread ? seconds_at(b, b.bytes, b.low) : 0, b.source});
  }
  return rows;
}

CollectivePrediction predict_row(const CollectiveRow& row, const NetworkModel& model) {
  const Machine& machine = machine_of(row.platform);
  const CommGroup group{.ranks_per_node = row.ranks / row.nodes, .nodes = row.nodes};
  const CollectiveCost cost = collective_cost(machine, group, row.collective, row.bytes, model);
  const double launches = row.per_process > 1 ? row.per_process * launch_seconds : 0;
  return {std::max(cost.seconds(), launches),
          nccl_choice(nccl_system(machine, group), row.collective, row.bytes).seconds,
          cost.algorithm + "/" + cost.protocol};
}

}  // namespace lockstep
