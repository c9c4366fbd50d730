// Counts measured rows inside their intervals, by leave-one-source-out cross-validation. A row has
// the parts of its error for the program's law. Another law only multiplies the two fitted parts,
// so no simulation is repeated.
#include "questions/coverage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace lockstep {

namespace {

constexpr ErrorLaw shipped;  // the law that the program uses

double log_error(const ValidationRow& row) {
  return std::log(row.measured / row.predicted);
}

// The first word of the row's source, because one source can have several tables.
std::string source_of(const ValidationRow& row) {
  return row.source.substr(0, row.source.find_first_of(" ,"));
}

// Whether the row is a step time that no fit has used.
bool is_test(const ValidationRow& row) {
  return row.quantity == "step_s" && !row.calibration;
}

// Whether the measurement lies inside the interval that `law` gives.
bool holds(const ValidationRow& row, const ErrorLaw& law) {
  StepError error = row.step_error;
  error.scaling *= law.doubling / shipped.doubling;
  error.servers *= law.servers / shipped.servers;
  const Interval interval = interval_around(row.predicted, sigma_of(error));
  return row.measured >= interval.low && row.measured <= interval.high;
}

std::size_t inside(const std::vector<ValidationRow>& rows, const ErrorLaw& law) {
  return static_cast<std::size_t>(std::count_if(
      rows.begin(), rows.end(), [&](const ValidationRow& row) { return holds(row, law); }));
}

}  // namespace

ErrorLaw error_law(const std::vector<ValidationRow>& rows) {
  // Sum of squares of errors per sqrt(doublings), and its number of rows. row.step_error.scaling is
  // law.doubling * sqrt(doublings), so the division gives the error of one doubling.
  double walk = 0, steps = 0;
  std::map<std::string, std::pair<double, double>> servers;  // sum of squares, rows
  for (const ValidationRow& row : rows) {
    if (!is_test(row)) continue;
    if (row.group == "scaling" && row.step_error.scaling > 0) {
      walk += std::pow(log_error(row) * shipped.doubling / row.step_error.scaling, 2);
      ++steps;
    }
    if (row.step_error.servers <= 0) continue;
    // The square of the servers' part is the square of the row's error minus the squares of all
    // other parts.
    StepError rest = row.step_error;
    rest.servers = 0;
    auto& [squares, count] = servers[source_of(row)];
    squares += (std::pow(log_error(row), 2) - std::pow(sigma_of(rest), 2)) *
               std::pow(shipped.servers / row.step_error.servers, 2);
    ++count;
  }
  double squares = 0;
  for (const auto& [source, sums] : servers) squares += std::max(0.0, sums.first / sums.second);
  ErrorLaw law = shipped;
  if (steps > 0) law.doubling = std::sqrt(walk / steps);
  if (!servers.empty()) law.servers = std::sqrt(squares / static_cast<double>(servers.size()));
  return law;
}

std::vector<SourceCoverage> coverage_by_source(const std::vector<ValidationRow>& rows) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<ValidationRow>> own, others;
  for (const ValidationRow& row : rows) {
    if (!is_test(row)) continue;
    const std::string name = source_of(row);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    own[name].push_back(row);
  }
  for (const std::string& name : names)
    for (const auto& [source, list] : own)
      if (source != name) others[name].insert(others[name].end(), list.begin(), list.end());
  std::vector<SourceCoverage> sources;
  SourceCoverage all{"all", 0, 0, error_law(rows), 0};
  for (const std::string& name : names) {
    const ErrorLaw without = error_law(others[name]);
    sources.push_back(
        {name, own[name].size(), inside(own[name], shipped), without, inside(own[name], without)});
    all.rows += sources.back().rows;
    all.inside += sources.back().inside;
    all.left_out += sources.back().left_out;
  }
  if (!sources.empty()) sources.push_back(all);
  return sources;
}

Table coverage_table(const std::vector<SourceCoverage>& sources) {
  Table table({{"source", Table::Align::left},
               {"rows"},
               {"in 90 % interval"},
               {"doubling without it"},
               {"servers without it"},
               {"in interval without it"}});
  const auto percent = [](double part, double whole) {
    return fmt::format("{:.1f} %", 100 * part / whole);
  };
  for (const SourceCoverage& s : sources) {
    const auto rows = static_cast<double>(s.rows);
    table.add_row({s.source, std::to_string(s.rows), percent(static_cast<double>(s.inside), rows),
                   percent(s.without.doubling, 1), percent(s.without.servers, 1),
                   percent(static_cast<double>(s.left_out), rows)});
  }
  return table;
}

}  // namespace lockstep
