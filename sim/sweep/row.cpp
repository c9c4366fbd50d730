// Writes the rows of a sweep as JSON without a JSON library, and converts them to CSV. The columns
// are the columns of `run --csv` that do not depend on other points.
#include "sweep/row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "results/columns.hpp"

namespace lockstep {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::array kind_names{"answer", "refused", "failed"};

// Text as a JSON string.
std::string quoted(const std::string& text) {
  return OrderedJson(text).dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

constexpr const char* none = "null";

// The cells of `run --csv` without the scaling efficiency, which compares points.
std::vector<Cell> cells_of(const Prediction& prediction) {
  ColumnCells columns;
  columns.column("precision", prediction.precision);
  describe(columns, prediction);
  std::erase_if(columns.cells, [](const Cell& c) { return c.column == "scaling_efficiency"; });
  return std::move(columns.cells);
}

// Converts a setting's value to JSON: numbers and truth values unchanged, everything else as text.
std::string set_value(const std::string& text) {
  const OrderedJson value = OrderedJson::parse(text, nullptr, false);
  return value.is_number() || value.is_boolean() ? text : quoted(text);
}

// The members that every row has, without the closing brace:
//
//     {"sweep":DIGEST,"row":NUMBER,"rows":ALL,"kind":KIND,"set":{PATH:VALUE,...}
std::string beginning(const SweepPlan& plan, std::size_t number, RowKind kind) {
  std::string row =
      fmt::format(R"({{"sweep":"{}","row":{},"rows":{},"kind":"{}","set":{{)", plan.digest, number,
                  plan.points.size(), kind_names[static_cast<std::size_t>(kind)]);
  const char* separator = "";
  for (const auto& [path, text] : plan.grid->set(plan.points[number])) {
    row += fmt::format("{}{}:{}", separator, quoted(path), text ? set_value(*text) : none);
    separator = ",";
  }
  return row + "}";
}

// Converts a JSON value to a cell (RFC 4180); null becomes an empty cell.
std::string csv_cell(const OrderedJson& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  const std::string& text = value.get_ref<const std::string&>();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + "\"";
}

}  // namespace

std::string answer_row(const SweepPlan& plan, std::size_t number, const Prediction& prediction) {
  std::string row = beginning(plan, number, RowKind::answer);
  for (const Cell& c : cells_of(prediction)) {
    const std::string value = c.words ? quoted(c.text) : c.text.empty() ? none : c.text;
    row += fmt::format(R"(,"{}":{})", c.column, value);
  }
  return row + "}\n";
}

std::string no_answer_row(const SweepPlan& plan, std::size_t number, RowKind kind,
                          const std::string& reason) {
  return beginning(plan, number, kind) + fmt::format(R"(,"reason":{}}})", quoted(reason)) + "\n";
}

RowHead read_row(const std::string& line) {
  const OrderedJson row = OrderedJson::parse(line, nullptr, false);
  try {
    RowHead head;
    head.digest = row.at("sweep");
    head.number = row.at("row");
    head.all = row.at("rows");
    const std::string kind = row.at("kind");
    const auto found = std::find(kind_names.begin(), kind_names.end(), kind);
    if (found == kind_names.end()) throw std::invalid_argument("an unknown kind of row");
    head.kind = static_cast<RowKind>(found - kind_names.begin());
    return head;
  } catch (const nlohmann::json::exception&) {
    throw std::invalid_argument("no row of a sweep");
  }
}

RowKind kind_of(const std::string& line) {
  const std::string mark = R"("kind":")";
  const std::size_t at = line.find(mark) + mark.size();
  for (std::size_t kind = 0; kind < kind_names.size(); ++kind) {
    if (line.compare(at, std::strlen(kind_names[kind]), kind_names[kind]) == 0) {
      return static_cast<RowKind>(kind);
    }
  }
  throw std::logic_error("a row of no kind");
}

bool fits_into_memory(const std::string& line) {
  return line.find(R"(,"fits":true,)") != std::string::npos;
}

std::string reason_of(const std::string& line) {
  return OrderedJson::parse(line).value("reason", "");
}

std::string csv_header(const std::string& line) {
  std::string text = "row,kind";
  const OrderedJson row = OrderedJson::parse(line);
  for (const auto& [path, value] : row["set"].items()) {
    text += "," + csv_cell("set " + path);
  }
  for (const Cell& c : cells_of({})) text += "," + c.column;
  return text + ",reason\n";
}

std::string csv_row(const std::string& line) {
  const OrderedJson row = OrderedJson::parse(line);
  std::string text = csv_cell(row["row"]) + "," + csv_cell(row["kind"]);
  for (const auto& [path, value] : row["set"].items()) text += "," + csv_cell(value);
  static const std::vector<Cell> columns = cells_of({});
  for (const Cell& c : columns) text += "," + csv_cell(row.value(c.column, OrderedJson()));
  return text + "," + csv_cell(row.value("reason", OrderedJson())) + "\n";
}

}  // namespace lockstep
