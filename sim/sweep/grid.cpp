// Numbers the points of a grid in a mixed radix (one digit per axis), and builds the scenario of a
// point by putting values into the scenario's YAML tree. sample() uses Floyd's algorithm.
#include "sweep/grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "core/file_text.hpp"
#include "core/random.hpp"
#include "core/text_hash.hpp"

namespace lockstep {

namespace {

// Number of values of a setting that are checked before the sweep begins; of more values only a
// part is checked.
constexpr std::size_t most_checked = 10'000;
constexpr PointIndex most_points_of_a_grid = PointIndex{1} << 53;

// Throws ConfigError if a value is a list, because each value makes one point.
void refuse_lists(const Setting& setting) {
  for (const Node& value : setting.values) {
    if (value.kind() != Node::Kind::sequence) continue;
    throw setting_error(setting, value.where().column, "each value is one of the sweep, not a list",
                        fmt::format("write {}=A,B", setting.path));
  }
}

}  // namespace

bool Grid::Axis::applies_to(std::size_t entry) const {
  const std::vector<std::size_t>& all = where.entries;
  return all.empty() || std::find(all.begin(), all.end(), entry) != all.end();
}

Grid::Grid(const std::string& scenario_file, const std::vector<std::string>& settings,
           InputFiles& files)
    : file_(scenario_file) {
  Node root = Node::parse_file(scenario_file);
  // If the file is no map, the scenario's own reader reports it.
  if (root.kind() != Node::Kind::map) read_scenario(scenario_file);
  std::string all =
      fmt::format("{}\n{}\n", LOCKSTEP_VERSION, file_text(scenario_file, most_of_a_description));
  for (const std::string& text : settings) {
    settings_.push_back(parse_setting(text));
    all += settings_.back().name + "\n";
  }
  digest_ = fmt::format("{:016x}", text_hash(all));

  // Find the axes (entries, settings and GPU counts), and refuse settings that cannot be swept.
  std::set<std::string> paths;
  entries_ = elements_of(root, "strategies");
  std::vector<Node> counts = elements_of(root, "gpus");
  std::vector<Setting> inner;
  for (Setting& setting : settings_) {
    const std::string& first = setting.steps.front().key;
    if (!paths.insert(setting.path).second) {
      throw setting_error(setting, 1, "is set twice", "give all values to one --set");
    }
    if (first == "measured" || first == "anchor") {
      throw setting_error(setting, 1, "does not take part in the prediction", "set it in the file");
    }
    if (setting.path == "strategies") {
      refuse_lists(setting);
      entries_ = setting.values;
    }
    if (setting.path == "gpus") {
      refuse_lists(setting);
      counts = setting.values;
      gpus_of_file_ = false;
    }
  }
  // The file's GPU counts become a setting without a name, which is the innermost axis.
  if (gpus_of_file_) {
    if (counts.empty()) counts.push_back(Node::parse_text("1", scenario_file));
    Setting gpus;
    gpus.path = "gpus";
    gpus.steps = {{"gpus", std::nullopt, 1}};
    gpus.values = counts;
    for (const Node& count : counts) gpus.texts.push_back(count.scalar());
    settings_.push_back(std::move(gpus));
  }
  most_gpus_ = *std::max_element(counts.begin(), counts.end(), [](const Node& a, const Node& b) {
    return std::strtod(a.scalar().c_str(), nullptr) < std::strtod(b.scalar().c_str(), nullptr);
  });
  root_ = root.without("measured").without("anchor");
  for (const Setting& setting : settings_) axes_.push_back({entries_of(setting, entries_)});

  // Number the points: each entry has as many as the product of the sizes of its axes.
  for (std::size_t e = 0; e < std::max<std::size_t>(1, entries_.size()); ++e) {
    begins_.push_back(size_);
    PointIndex points = 1;
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      if (!axes_[a].applies_to(e) || settings_[a].path == "strategies") continue;
      const PointIndex count = settings_[a].values.size();
      if (points > most_points_of_a_grid / count) {
        throw setting_error(settings_[a], 1, "makes more points than can be numbered");
      }
      points *= count;
    }
    size_ += points;
  }
  check_values(files);
}

// The last entry that begins at or before the point.
std::size_t Grid::entry(PointIndex point) const {
  return static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), point) -
                                  begins_.begin()) -
         1;
}

// Divides the number of a point into one index for each axis, from the innermost axis outwards.
std::vector<std::optional<std::size_t>> Grid::values_at(PointIndex point) const {
  const std::size_t e = entry(point);
  PointIndex rest = point - begins_[e];
  std::vector<std::optional<std::size_t>> values(axes_.size());
  for (std::size_t a = axes_.size(); a-- > 0;) {
    if (!axes_[a].applies_to(e)) continue;
    if (settings_[a].path == "strategies") {
      values[a] = e;
      continue;
    }
    const PointIndex count = settings_[a].values.size();
    values[a] = static_cast<std::size_t>(rest % count);
    rest /= count;
  }
  return values;
}

std::vector<std::pair<std::string, const std::string*>> Grid::set(PointIndex point) const {
  const auto values = values_at(point);
  std::vector<std::pair<std::string, const std::string*>> list;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    const Setting& setting = settings_[a];
    if (gpus_of_file_ && setting.path == "gpus") continue;  // every row has its GPU count anyway
    list.emplace_back(setting.path, values[a] ? &setting.texts[*values[a]] : nullptr);
  }
  return list;
}

Scenario Grid::read(std::size_t e, const std::vector<std::optional<std::size_t>>& values) const {
  Node root = root_;
  Node entry = e < entries_.size() ? entries_[e] : Node();
  Node gpus;
  // Location of a setting for messages: its text on the command line, or the file's own line.
  const auto key_where = [&](const Setting& setting) {
    return setting.name.empty() ? root_.key_location(setting.path)
                                : Location{setting.name, 1, setting.steps.front().column};
  };
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    const Setting& setting = settings_[a];
    if (!values[a] || setting.path == "strategies") continue;
    const Node& value = setting.values[*values[a]];
    if (setting.path == "gpus") {
      // Also read the largest count, so that ranks are checked against it; it is dropped below.
      std::vector<Node> counts{value};
      if (value.scalar() != most_gpus_.scalar()) counts.push_back(most_gpus_);
      root = root.with("gpus", value.with_elements(counts), key_where(setting));
    } else if (!axes_[a].where.entries.empty()) {
      entry = put(entry, setting, value, axes_[a].where.from);
    } else {
      root = put(root, setting, value);
    }
  }
  if (!entries_.empty()) {
    const auto list = root_.find("strategies").value_or(entry);
    root = root.with("strategies", list.with_elements({entry}), root_.key_location("strategies"));
  }
  Scenario scenario = read_scenario_node(root, file_);
  scenario.gpus.resize(1);
  return scenario;
}

Scenario Grid::scenario(PointIndex point) const {
  return read(entry(point), values_at(point));
}

// Reads the first point of each entry, and then every other value of each axis, combined with the
// first values of all other axes. Skips an axis that an earlier entry has, because it was checked
// there.
void Grid::check_values(InputFiles& files) const {
  std::vector<std::string> seen;
  Diagnostics diagnostics;
  const auto attempt = [&](std::size_t e, const std::vector<std::optional<std::size_t>>& values) {
    try {
      files.of(read(e, values));
    } catch (const ConfigError& error) {
      for (const Diagnostic& diagnostic : error.diagnostics()) {
        const std::string text = to_string(diagnostic);
        if (std::find(seen.begin(), seen.end(), text) != seen.end()) continue;
        seen.push_back(text);
        diagnostics.add(diagnostic);
      }
    }
  };
  for (std::size_t e = 0; e < begins_.size(); ++e) {
    const auto first = values_at(begins_[e]);
    attempt(e, first);
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      const bool before =
          e > 0 && (axes_[a].where.entries.empty() || axes_[a].where.entries.front() < e);
      if (!first[a] || before || settings_[a].path == "strategies") continue;
      const std::size_t count = settings_[a].values.size();
      for (std::size_t v = 1; v < count; v += 1 + count / most_checked) {
        auto values = first;
        values[a] = v;
        attempt(e, values);
        if (seen.size() >= 20) break;
      }
    }
  }
  diagnostics.throw_if_any();
}

std::vector<PointIndex> sample(PointIndex size, std::size_t count, std::uint64_t seed) {
  // Floyd's algorithm draws every subset with equal probability. Step `top` draws from 0 .. top; if
  // the drawn number was chosen before, `top` itself is chosen.
  std::set<PointIndex> chosen;
  const PointIndex wanted = std::min<PointIndex>(count, size);
  for (PointIndex top = size - wanted; top < size; ++top) {
    const auto draw = static_cast<std::uint32_t>(top - (size - wanted));
    const double uniform = uniform_draw({seed, draw, 0, 0});
    const auto index =
        std::min(top, static_cast<PointIndex>(uniform * static_cast<double>(top + 1)));
    if (!chosen.insert(index).second) chosen.insert(top);
  }
  return {chosen.begin(), chosen.end()};
}

}  // namespace lockstep
