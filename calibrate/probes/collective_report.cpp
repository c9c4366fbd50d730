// Writes the points of the collectives probe as JSON, as tables in nccl-tests' layout, and as
// curves of a profile; parses the sizes and names of the command line. Bus bandwidths follow
// nccl-tests' definition.
#include "probes/collective_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "core/errors.hpp"
#include "core/units.hpp"
#include "costs/collective.hpp"

namespace lockstep {

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

double parse_size(const std::string& text) {
  try {
    const double bytes = parse_quantity(text, Dimension::bytes);
    if (bytes >= 4 && bytes <= 16e9) return bytes;
    throw UnitError(fmt::format("{} is out of range: 4 B to 16 GB", text));
  } catch (const UnitError& error) {
    throw file_error("", "--sizes", error.what());
  }
}

bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter;
}

}  // namespace

const std::vector<Collective>& measurable_collectives() {
  static const std::vector<Collective> all{Collective::all_reduce, Collective::all_gather,
                                           Collective::reduce_scatter, Collective::broadcast,
                                           Collective::send_recv};
  return all;
}

std::int64_t CollectiveReport::wrong() const {
  std::int64_t all = 0;
  for (const auto& point : points) all += point.wrong;
  return all;
}

nlohmann::json point_json(const CollectivePoint& point) {
  return {{"collective", enum_name(point.collective)},
          {"bytes", point.bytes},
          {"count", point.count},
          {"seconds", point.seconds},
          {"relative_iqr", point.relative_iqr},
          {"relative_spread", point.relative_spread},
          {"cpu_seconds", point.cpu_seconds},
          {"compute_speed", point.compute_speed},
          {"speed_beside_compute", point.speed_beside_compute},
          {"sender_seconds", point.sender_seconds},
          {"one_core_seconds", point.one_core_seconds},
          {"wrong", point.wrong},
          {"repetitions", point.repetitions},
          {"foreign_cores", point.disturbance.foreign},
          {"stolen_cores", point.disturbance.stolen},
          {"disturbed", point.disturbed}};
}

CollectivePoint point_from_json(const nlohmann::json& json) {
  CollectivePoint point;
  point.collective = parse_collectives(json.at("collective").get<std::string>()).front();
  point.bytes = json.at("bytes");
  point.count = json.at("count");
  point.seconds = json.at("seconds");
  point.relative_iqr = json.at("relative_iqr");
  point.relative_spread = json.at("relative_spread");
  point.cpu_seconds = json.at("cpu_seconds");
  point.compute_speed = json.at("compute_speed");
  point.speed_beside_compute = json.at("speed_beside_compute");
  point.sender_seconds = json.at("sender_seconds");
  point.one_core_seconds = json.at("one_core_seconds");
  point.wrong = json.at("wrong");
  point.repetitions = json.at("repetitions");
  point.disturbance.foreign = json.at("foreign_cores");
  point.disturbance.stolen = json.at("stolen_cores");
  point.disturbed = json.at("disturbed");
  return point;
}

std::string collective_table(const CollectiveReport& report) {
  std::string text;
  const CollectivePoint* before = nullptr;
  for (const CollectivePoint& point : report.points) {
    if (!before || before->collective != point.collective) {
      text +=
          fmt::format("{}# {}: {} ranks, {}, {}\n", before ? "\n" : "", enum_name(point.collective),
                      report.ranks, report.backend, report.network);
      text += fmt::format(
          "#{:>11} {:>11} {:>7} {:>7} {:>5} {:>10} {:>7} {:>7} {:>6} {:>10} {:>6} {:>5}\n", "size",
          "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "cpu", "iqr",
          "reps");
      text += fmt::format(
          "#{:>11} {:>11} {:>7} {:>7} {:>5} {:>10} {:>7} {:>7} {:>6} {:>10} {:>6} {:>5}\n", "(B)",
          "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(%)", "");
    }
    const double bus = bus_bandwidth(point.collective, report.ranks, point.bytes, point.seconds);
    text += fmt::format(
        " {:>11.0f} {:>11} {:>7} {:>7} {:>5} {:>10.1f} {:>7.3f} {:>7.3f} {:>6} {:>10.1f} {:>6.1f} "
        "{:>5}{}\n",
        point.bytes, point.count, "float", reduces(point.collective) ? "sum" : "none", -1,
        1e6 * point.seconds, 1e-9 * point.bytes / point.seconds, 1e-9 * bus, point.wrong,
        1e6 * point.cpu_seconds, 100 * point.relative_iqr, point.repetitions,
        point.disturbed ? " *" : "");
    before = &point;
  }
  const bool any = std::any_of(report.points.begin(), report.points.end(),
                               [](const auto& point) { return point.disturbed; });
  if (any) text += "# * other processes used the machine meanwhile, in every attempt\n";
  text += fmt::format("# Out of bounds values : {} {}\n", report.wrong(),
                      report.wrong() == 0 ? "OK" : "FAILED");
  if (!report.complete) text += "# interrupted: not all sizes were measured\n";
  return text;
}

nlohmann::json collective_json(const CollectiveReport& report) {
  nlohmann::json points = nlohmann::json::array();
  for (const auto& point : report.points) {
    nlohmann::json json = point_json(point);
    json["bus_bytes_per_second"] =
        bus_bandwidth(point.collective, report.ranks, point.bytes, point.seconds);
    points.push_back(json);
  }
  return {{"backend", report.backend}, {"ranks", report.ranks},       {"nodes", report.nodes},
          {"network", report.network}, {"complete", report.complete}, {"points", points}};
}

std::vector<ProfileCollective> collective_curves(const CollectiveReport& report) {
  std::vector<ProfileCollective> curves;
  for (const auto& point : report.points) {
    const std::string name = enum_name(point.collective);
    if (curves.empty() || curves.back().collective != name) {
      curves.push_back({name, report.backend, report.ranks, report.nodes, {}});
    }
    curves.back().points.push_back({point.bytes, point.seconds, point.cpu_seconds,
                                    point.compute_speed, point.speed_beside_compute,
                                    point.sender_seconds, point.one_core_seconds});
  }
  return curves;
}

std::vector<double> parse_sizes(const std::string& text) {
  std::vector<double> sizes;
  const auto dots = text.find("..");
  if (dots != std::string::npos) {
    const double first = parse_size(text.substr(0, dots)), last = parse_size(text.substr(dots + 2));
    if (first > last) {
      throw file_error("", "--sizes", "the first size is larger than the last");
    }
    for (double size = first; size <= last; size *= 2) sizes.push_back(size);
    if (sizes.back() < last) sizes.push_back(last);
    return sizes;
  }
  for (const auto& part : split(text, ',')) sizes.push_back(parse_size(part));
  if (sizes.empty()) throw file_error("", "--sizes", "no sizes", "for example 4KiB..64MiB");
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

std::vector<Collective> parse_collectives(const std::string& text) {
  const auto& all = measurable_collectives();
  if (text.empty()) return all;
  std::vector<Collective> chosen;
  for (const auto& word : split(text, ',')) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](Collective c) { return enum_name(c) == word; });
    if (found == all.end()) {
      std::vector<std::string> names;
      for (const Collective c : all) names.push_back(enum_name(c));
      throw file_error("", "--collectives", "unknown collective " + in_quotes(word),
                       allowed_hint(word, names));
    }
    if (std::find(chosen.begin(), chosen.end(), *found) == chosen.end()) chosen.push_back(*found);
  }
  return chosen;
}

}  // namespace lockstep
