// Reads and writes the lines of golden files, and compares them within a tolerance.
#include "written.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "core/data.hpp"

namespace lockstep {

Written written_of(const Prediction& p) {
  double traffic = 0;
  for (const LinkTraffic& t : p.traffic) traffic += t.bytes;
  return {p.strategy + " on " + std::to_string(p.gpus),
          p.step_seconds,
          p.worker_steps.has_value(),
          {{"step", p.step_seconds},
           {"first step", p.first_step_seconds},
           {"data loading", p.split.data_loading},
           {"forward", p.split.forward},
           {"backward", p.split.backward},
           {"optimizer", p.split.optimizer},
           {"copies", p.split.copies},
           {"exposed", p.split.exposed_communication},
           {"host bound", p.split.host_bound},
           {"waiting", p.split.waiting},
           {"busy", p.gpu_utilisation * p.step_seconds},
           {"low", p.step_interval.low},
           {"high", p.step_interval.high},
           {"mfu", p.mfu},
           {"allocated", p.memory.allocated},
           {"reserved", p.memory.reserved},
           {"traffic", traffic},
           {"staleness", p.staleness ? p.staleness->mean : 0},
           {"least share", p.worker_steps ? p.worker_steps->least : 1},
           {"stragglers", p.stragglers ? p.stragglers->step_more : 0},
           {"finish", p.with_failures ? p.with_failures->finish_seconds : 0},
           {"dollars", p.dollars},
           {"kWh", p.energy ? p.energy->kilowatt_hours.low : 0}}};
}

namespace {

// The lines of the key, without the key and the number after it.
std::vector<std::string> lines_of(const std::string& path, const std::string& key,
                                  const std::vector<Written>& found) {
  const std::string begin = key + ",";
  std::vector<std::string> mine, all;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    (line.starts_with(begin) ? mine : all).push_back(line);
  }
  if (std::getenv("LOCKSTEP_WRITE_GOLDEN") != nullptr) {
    mine.clear();
    for (std::size_t i = 0; i < found.size(); ++i) {
      std::vector<double> figures;
      for (const auto& [name, figure] : found[i].figures) figures.push_back(figure);
      mine.push_back(fmt::format("{}{:03},{:.9g}", begin, i, fmt::join(figures, ",")));
    }
    std::vector<std::string> names;
    for (const auto& [name, figure] : found.at(0).figures) names.push_back(name);
    if (all.empty()) all.emplace_back();
    all[0] = fmt::format("file,point,{}", fmt::join(names, ","));
    all.insert(all.end(), mine.begin(), mine.end());
    std::sort(all.begin() + 1, all.end());
    std::ofstream(path) << fmt::format("{}\n", fmt::join(all, "\n"));
  }
  for (std::string& line : mine) line.erase(0, line.find(',', begin.size()) + 1);
  return mine;
}

void expect_figures(const Written& found, const std::string& line) {
  static const std::set<std::string> parts{"data loading", "forward",   "backward",   "optimizer",
                                           "copies",       "exposed",   "host bound", "waiting",
                                           "busy",         "stragglers"};
  static const std::set<std::string> certain{"first step", "allocated", "reserved"};
  std::istringstream in(line);
  std::vector<double> written;
  for (std::string word; std::getline(in, word, ',');) written.push_back(std::stod(word));
  ASSERT_EQ(written.size(), found.figures.size());
  for (std::size_t k = 0; k < written.size(); ++k) {
    const auto& [name, figure] = found.figures[k];
    const double size = parts.contains(name) ? found.step : std::abs(written[k]);
    const double tolerance = !found.chaotic || certain.contains(name) ? 1e-6 : 0.05;
    EXPECT_NEAR(figure, written[k], tolerance * size) << name;
  }
}

}  // namespace

void expect_as_written_down(const std::string& file, const std::string& key,
                            const std::vector<Written>& found) {
  const std::string path = data_folder("") + "/tests/scenario/golden/" + file;
  const std::vector<std::string> lines = lines_of(path, key, found);
  ASSERT_EQ(lines.size(), found.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    SCOPED_TRACE(found[i].name);
    expect_figures(found[i], lines[i]);
  }
}

}  // namespace lockstep
