// Formats a recommendation for people: the shortlist as a table, the reason for each of its
// candidates, commands to simulate them, the Pareto front, counts of excluded candidates, and the
// study's decision matrix.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/units.hpp"
#include "results/cells.hpp"
#include "results/sentences.hpp"
#include "results/table.hpp"
#include "sweep/recommend.hpp"

namespace lockstep {

namespace {

using Align = Table::Align;

constexpr std::size_t most_of_front = 12;  // rows of the Pareto front that are shown
// in the order of RankBy
constexpr std::array by_names{"cheapest", "fastest", "least memory", "least energy"};

// The optional columns of a table of candidates. A column is shown if some candidate has a value
// for it; the platform is shown if candidates differ in it.
struct Shown {
  bool numbers = false, platforms = false, energy = false, carbon = false, accuracy = false;
};

Shown shown_of(const Recommendation& r) {
  Shown shown;
  for (const Candidate& c : r.ranked) {
    shown.platforms |= c.platform != r.ranked.front().platform;
    shown.energy |= c.verdict.energy.has_value();
    shown.carbon |= c.verdict.energy && c.verdict.energy->carbon_kilograms;
    shown.accuracy |= c.verdict.accuracy.has_value();
  }
  return shown;
}

// An empty table with the shown columns.
Table candidates_table(const Shown& shown) {
  std::vector<Table::Column> columns;
  if (shown.numbers) columns.push_back({"#"});
  if (shown.platforms) columns.push_back({"platform", Align::left});
  columns.insert(
      columns.end(),
      {{"GPUs"}, {"strategy", Align::left}, {"micro-batch"}, {"total"}, {"cost"}, {"memory"}});
  if (shown.energy) columns.push_back({"energy"});
  if (shown.carbon) columns.push_back({"CO2"});
  if (shown.accuracy) columns.push_back({"accuracy"});
  return Table(columns);
}

// The table, folded to the width of a terminal. Every block begins with the candidate's name.
std::string folded(const Table& table, const Shown& shown) {
  return table.folded(text_width, 2 + (shown.numbers ? 1 : 0) + (shown.platforms ? 1 : 0));
}

// Adds a candidate's row.
void add(Table& table, const Shown& shown, std::size_t number, const Candidate& c) {
  const Verdict& v = c.verdict;
  std::vector<std::string> cells;
  if (shown.numbers) cells.push_back(std::to_string(number));
  if (shown.platforms) cells.push_back(c.platform);
  for (std::string cell :
       {std::to_string(c.gpus), c.strategy,
        c.accumulation > 1 ? fmt::format("{} x {}", c.micro, c.accumulation)
                           : std::to_string(c.micro),
        seconds_text(v.total), dollars_or_dash(v.dollars), bytes_text(v.device)}) {
    cells.push_back(std::move(cell));
  }
  const auto most = [](const std::optional<Interval>& interval, std::string (*text)(double)) {
    return interval ? text(interval->high) : std::string("-");
  };
  const Energy energy = v.energy.value_or(Energy{});
  if (shown.energy) cells.push_back(v.energy ? energy_text(energy.kilowatt_hours.high) : "-");
  if (shown.carbon) cells.push_back(most(energy.carbon_kilograms, carbon_text));
  if (shown.accuracy) cells.push_back(v.accuracy ? percent(v.accuracy->mean) : "-");
  table.add_row(std::move(cells));
}

// A value relative to the best candidate's, such as "12 % faster"; "" if they differ by less than
// half a percent.
std::string against(double value, double best, const char* less, const char* more) {
  const double ratio = value / best;
  if (best <= 0 || std::abs(ratio - 1) < 0.005) return "";
  return fmt::format("{:.0f} % {}", 100 * std::abs(ratio - 1), ratio < 1 ? less : more);
}

// Accuracies are shares of the test set, so they are compared by their difference in percentage
// points.
std::string more_accurate(const Candidate& c, const Candidate& best) {
  if (!c.verdict.accuracy || !best.verdict.accuracy) return "";
  const double more = 100 * (c.verdict.accuracy->mean - best.verdict.accuracy->mean);
  if (std::abs(more) < 0.05) return "";
  return fmt::format("{:.1f} points {} accurate", std::abs(more), more > 0 ? "more" : "less");
}

constexpr const char* no_autocast =
    "without autocast, so that normalisation runs in half precision: other numerics than the "
    "scenario's precision, and a part of the speed";

constexpr const char* compresses =
    "gradients are compressed, which changes the learning: --min-accuracy trains it";

// Warnings about other numerics than the user expects: compared with `best`, or with the scenario
// if the candidate itself is the best.
std::string otherwise(const Candidate& c, const Candidate& best) {
  const bool same = &c == &best;
  std::string text;
  if (c.verdict.without_autocast && (same || !best.verdict.without_autocast)) {
    text += std::string("; ") + no_autocast;
  }
  if (c.family == compressed_family && !c.verdict.accuracy) text += std::string("; ") + compresses;
  return text;
}

// The reason why a candidate precedes a faster one; "" = it does not.
std::string simpler(const Candidate& c) {
  if (!c.passed_over) return "";
  const PassedOver& other = *c.passed_over;
  const bool numerics = other.without_autocast && !c.verdict.without_autocast;
  return fmt::format(
      "simpler than {}, which is {:.1f} % faster{}: two predictions tell {:.0f} % apart",
      other.strategy, 100 * other.gain, numerics ? " (without autocast)" : "", 100 * other.told);
}

// The line about a candidate under "Why". The first candidate is described by the criterion in
// which it is best, the others by their differences from the first.
std::string reason(const Recommendation& r, const Candidate& c, const Candidate& best) {
  std::string text = simpler(c);
  if (&c == &best) {
    const bool is_best = std::none_of(
        r.ranked.begin(), r.ranked.end(),
        [&](const Candidate& other) { return 1.001 * measure(other, r.by) < measure(c, r.by); });
    text = fmt::format(
        "{}the {} of {} that meet every limit{}; {}", text.empty() ? "" : text + "; otherwise ",
        by_names[static_cast<std::size_t>(r.by)], r.ranked.size(),
        is_best || c.passed_over ? "" : ", except candidates that are better by too little to tell",
        c.verdict.bottleneck);
    return text + otherwise(c, best);
  }
  std::string differs;
  for (const std::string& part :
       {against(c.verdict.total, best.verdict.total, "faster", "slower"),
        against(c.verdict.dollars, best.verdict.dollars, "cheaper", "dearer"),
        against(c.verdict.device, best.verdict.device, "less memory", "more memory"),
        against(most_energy(c.verdict), most_energy(best.verdict), "less energy", "more energy"),
        more_accurate(c, best)}) {
    if (!part.empty()) differs += (differs.empty() ? "" : ", ") + part;
  }
  text = (differs.empty() ? "as good as the first" : differs + " than the first") +
         (text.empty() ? "" : "; ") + text;
  return text + otherwise(c, best);
}

// The command that simulates the candidate. It leaves out settings of the question that the
// candidate's own settings replace.
std::string command(const Candidate& c, const std::string& scenario,
                    const std::vector<std::string>& settings) {
  std::vector<std::string> all;
  for (const std::string& setting : settings) {
    const std::string field = setting.substr(0, setting.find_first_of(".[="));
    if (std::none_of(c.settings.begin(), c.settings.end(),
                     [&](const std::string& own) { return own.starts_with(field + "="); })) {
      all.push_back(setting);
    }
  }
  all.insert(all.end(), c.settings.begin(), c.settings.end());
  std::string text = "lockstep sweep " + scenario;
  for (const std::string& setting : all) {
    const char* quote = setting.find_first_of(" {}[]") == std::string::npos ? "" : "'";
    text += fmt::format(" --set {}{}{}", quote, setting, quote);
  }
  return text;
}

// The decision matrix: a row for each goal, a column for each family, and the study's own choice in
// the last column.
std::string matrix_text(const Recommendation& r) {
  std::vector<Table::Column> columns{{"goal", Align::left}};
  for (const MatrixColumn& column : r.matrix) {
    columns.push_back({column.family});
  }
  columns.push_back({"the study takes", Align::left});
  Table table(columns);
  // Adds a row; `value` makes the cell of a family.
  const auto row = [&](const char* goal, const char* study, auto&& value) {
    std::vector<std::string> cells{goal};
    for (const MatrixColumn& column : r.matrix) cells.push_back(value(column));
    cells.emplace_back(study);
    table.add_row(cells);
  };
  row("speed: shortest run", "DDP",
      [](const MatrixColumn& c) { return seconds_text(c.fastest.verdict.total); });
  row("memory: least per GPU", "FSDP",
      [](const MatrixColumn& c) { return bytes_text(c.least_memory); });
  row("cost: cheapest run", "-",
      [](const MatrixColumn& c) { return dollars_or_dash(c.least_dollars); });
  // If servers share links, a slow GPU may leave more capacity to the others, so that the run is
  // even faster; the matrix does not show this as a gain.
  row("uneven GPUs: one 30 % slower", "async server", [](const MatrixColumn& c) {
    if (c.uneven == 0) return std::string("-");
    const std::string more = fmt::format("+{:.0f} %", std::max(0.0, 100 * (c.uneven - 1)));
    return c.limit.empty() ? more : fmt::format("{} ({})", more, c.limit);
  });
  row("accuracy: age of gradients", "DDP, FSDP, sync server", [](const MatrixColumn& c) {
    return fmt::format("{:.1f} updates", c.fastest.verdict.staleness);
  });
  if (r.trainings > 0) {
    row("accuracy: best that was trained", "DDP, FSDP, sync server", [&](const MatrixColumn& c) {
      const auto learned = r.learned.find(c.family);
      return learned == r.learned.end() ? std::string("-") : percent(learned->second);
    });
  }
  return table.folded(text_width, 1);
}

// The Pareto front with at most most_of_front rows, which are spread evenly and include both ends.
std::string front_text(const Recommendation& r, const Shown& shown) {
  Table front = candidates_table(shown);
  const std::size_t rows = std::min(most_of_front, r.pareto.size());
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t at = rows > 1 ? i * (r.pareto.size() - 1) / (rows - 1) : 0;
    add(front, shown, 0, r.ranked[r.pareto[at]]);
  }
  return folded(front, shown);
}

// One line for each setting that makes the first candidate faster.
std::string faster_text(const Recommendation& r) {
  std::string text;
  for (const FasterStill& faster : r.faster) {
    text += wrapped(fmt::format("--set {}: the first takes {:.0f} % less{}", faster.setting,
                                100 * faster.gain,
                                faster.other_numerics
                                    ? ", with other numerics: compare losses before a long run"
                                    : ""),
                    3) +
            "\n";
  }
  return text;
}

}  // namespace

std::string recommendation_text(const Recommendation& r, const std::string& scenario,
                                const std::vector<std::string>& settings) {
  std::string text;
  if (r.ranked.empty()) {
    text += "Nothing meets every limit.\n";
  } else {
    std::vector<const Candidate*> list;
    for (const std::size_t i : shortlist(r.ranked)) list.push_back(&r.ranked[i]);
    text += fmt::format("Recommended: {} on {} of {}\n\n", list.front()->strategy,
                        gpus_text(list.front()->gpus), list.front()->platform);
    Shown shown = shown_of(r);
    const Shown of_front = shown;
    shown.numbers = true;
    Table table = candidates_table(shown);
    for (std::size_t i = 0; i < list.size(); ++i) add(table, shown, i + 1, *list[i]);
    text += folded(table, shown);
    if (shown.energy) text += "(energy and CO2 of the GPUs at full board power: at most)\n";
    if (std::any_of(r.ranked.begin(), r.ranked.end(), [](const Candidate& c) {
          return c.verdict.dollars > 0 && c.verdict.rented > c.gpus;
        })) {
      text += wrapped(
                  "(costs count whole nodes, as clouds rent them; with `price_per_gpu_hour` in the "
                  "scenario they count the GPUs in use)") +
              "\n";
    }
    text += "\nWhy\n";
    for (std::size_t i = 0; i < list.size(); ++i) {
      text += wrapped(fmt::format("{}  {}", i + 1, reason(r, *list[i], *list.front())), 3) + "\n";
    }
    text += faster_text(r);
    text += "\nTo see each candidate\n";
    for (std::size_t i = 0; i < list.size(); ++i) {
      text += fmt::format("{}  {}\n", i + 1, command(*list[i], scenario, settings));
    }
    text += fmt::format("\nNone is better in time, cost{}{}{} at once ({})\n",
                        shown.energy || shown.accuracy ? ", memory" : " and memory",
                        !shown.energy    ? ""
                        : shown.accuracy ? ", energy"
                                         : " and energy",
                        shown.accuracy ? " and accuracy" : "",
                        r.pareto.size() > most_of_front
                            ? fmt::format("{} of {}", most_of_front, r.pareto.size())
                            : "all");
    text += front_text(r, of_front);
  }
  text += fmt::format("\n{} candidates, {} meet every limit. Left out\n", r.candidates,
                      r.ranked.size());
  for (const auto& [why, count] : r.left_out) {
    text += wrapped(fmt::format("{:>6}  {}", count, why)) + "\n";
  }
  if (r.left_out.empty()) text += "     none\n";
  if (const MeshCounts& meshes = r.meshes; meshes.looked_at > 0) {
    text +=
        wrapped(fmt::format("Meshes: {} considered, {} do not divide, {} ruled out by bounds of "
                            "time and memory, {} simulated",
                            meshes.looked_at, meshes.refused, meshes.ruled_out, meshes.simulated)) +
        "\n";
  }
  if (r.trainings > 0) {
    text += fmt::format("{} candidates learn differently and were trained in the simulated order\n",
                        r.trainings);
  }
  if (!r.matrix.empty()) {
    text += "\nThe study's decision matrix with these numbers (best of each that fits)\n" +
            matrix_text(r);
    if (std::any_of(r.matrix.begin(), r.matrix.end(),
                    [](const MatrixColumn& c) { return !c.limit.empty(); })) {
      text += wrapped("(in brackets: the bottleneck of the step instead of the slow GPU)") + "\n";
    }
  }
  return text;
}

}  // namespace lockstep
