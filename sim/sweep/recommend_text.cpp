#include <fmt/format.h>

#include <set>

#include "core/units.hpp"
#include "results/cells.hpp"
#include "results/table.hpp"
#include "sweep/recommend.hpp"

namespace lockstep {

namespace {

using Align = Table::Align;

constexpr std::size_t most_shown = 5, most_of_front = 12;
constexpr std::array by_names{"cheapest", "fastest", "least memory"};

std::string money(double dollars) {
  return dollars > 0 ? fmt::format("${:.2f}", dollars) : "-";
}

Table candidates_table() {
  return Table({{"#"},
                {"platform", Align::left},
                {"GPUs"},
                {"strategy", Align::left},
                {"micro-batch"},
                {"total"},
                {"cost"},
                {"memory"}});
}

void add(Table& table, const std::string& number, const Candidate& c) {
  table.add_row({number, c.platform, std::to_string(c.gpus), c.strategy,
                 c.accumulation > 1 ? fmt::format("{} x {}", c.micro, c.accumulation)
                                    : std::to_string(c.micro),
                 seconds_text(c.verdict.total), money(c.verdict.dollars),
                 bytes_text(c.verdict.device)});
}

// The best of each family on each platform and GPU count.
std::vector<const Candidate*> shortlist(const Recommendation& r) {
  std::vector<const Candidate*> list;
  std::set<std::string> seen;
  for (const Candidate& c : r.ranked) {
    const std::string kind =
        fmt::format("{}/{}/{}", c.platform, c.gpus, static_cast<int>(c.family));
    if (list.size() < most_shown && seen.insert(kind).second) list.push_back(&c);
  }
  return list;
}

std::string against(double value, double best, const char* less, const char* more) {
  const double ratio = value / best;
  if (best <= 0 || std::abs(ratio - 1) < 0.005) return "";
  return fmt::format("{:.0f} % {}", 100 * std::abs(ratio - 1), ratio < 1 ? less : more);
}

std::string reason(const Recommendation& r, const Candidate& c, const Candidate& best) {
  if (&c == &best) {
    return fmt::format("the {} of {} that meet every limit; {}",
                       by_names[static_cast<std::size_t>(r.by)], r.ranked.size(),
                       c.verdict.bottleneck);
  }
  std::string text;
  for (const std::string& part :
       {against(c.verdict.total, best.verdict.total, "faster", "slower"),
        against(c.verdict.dollars, best.verdict.dollars, "cheaper", "dearer"),
        against(c.verdict.device, best.verdict.device, "less memory", "more memory")}) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  }
  return text.empty() ? "as good as the first" : text + " than the first";
}

std::string command(const Candidate& c, const std::string& scenario) {
  std::string text = "lockstep sweep " + scenario;
  for (const std::string& setting : c.settings) {
    const char* quote = setting.find_first_of(" {}[]") == std::string::npos ? "" : "'";
    text += fmt::format(" --set {}{}{}", quote, setting, quote);
  }
  return text;
}

std::string matrix_text(const Recommendation& r) {
  std::vector<Table::Column> columns{{"goal", Align::left}};
  for (const MatrixColumn& column : r.matrix) {
    columns.push_back({family_names[static_cast<std::size_t>(column.family)]});
  }
  columns.push_back({"the study takes", Align::left});
  Table table(columns);
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
  row("cost: cheapest run", "-", [](const MatrixColumn& c) { return money(c.least_dollars); });
  row("uneven GPUs: one 30 % slower", "async server", [](const MatrixColumn& c) {
    return c.uneven > 0 ? fmt::format("{:+.0f} %", 100 * (c.uneven - 1)) : std::string("-");
  });
  row("accuracy: age of gradients", "DDP, FSDP, sync server", [](const MatrixColumn& c) {
    return fmt::format("{:.1f} updates", c.fastest.verdict.staleness);
  });
  return table.text();
}

}  // namespace

std::string recommendation_text(const Recommendation& r, const std::string& scenario) {
  std::string text;
  if (r.ranked.empty()) {
    text += "Nothing meets every limit.\n";
  } else {
    const auto list = shortlist(r);
    text += fmt::format("Recommended: {} on {} of {}\n\n", list.front()->strategy,
                        gpus_text(list.front()->gpus), list.front()->platform);
    Table table = candidates_table();
    for (std::size_t i = 0; i < list.size(); ++i) add(table, std::to_string(i + 1), *list[i]);
    text += table.text() + "\nWhy\n";
    for (std::size_t i = 0; i < list.size(); ++i) {
      text += fmt::format("{}  {}\n", i + 1, reason(r, *list[i], *list.front()));
    }
    text += "\nTo see each of them\n";
    for (std::size_t i = 0; i < list.size(); ++i) {
      text += fmt::format("{}  {}\n", i + 1, command(*list[i], scenario));
    }
    text += fmt::format("\nNone is better in time, cost and memory at once ({})\n",
                        r.pareto.size() > most_of_front
                            ? fmt::format("{} of {}", most_of_front, r.pareto.size())
                            : "all");
    Table front = candidates_table();
    // Evenly over the front, both ends included.
    const std::size_t shown = std::min(most_of_front, r.pareto.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const std::size_t at = shown > 1 ? i * (r.pareto.size() - 1) / (shown - 1) : 0;
      add(front, "", r.ranked[r.pareto[at]]);
    }
    text += front.text();
  }
  text += fmt::format("\n{} candidates, {} meet every limit. Left out\n", r.candidates,
                      r.ranked.size());
  for (const auto& [why, count] : r.left_out) text += fmt::format("{:>6}  {}\n", count, why);
  if (r.left_out.empty()) text += "     none\n";
  if (!r.matrix.empty()) {
    text +=
        "\nThe study's decision matrix with these numbers (best of each that fits into memory)\n" +
        matrix_text(r);
  }
  return text;
}

}  // namespace lockstep
