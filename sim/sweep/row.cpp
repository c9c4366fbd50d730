#include "sweep/row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace lockstep {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kind_names{"answer", "refused", "failed"};

std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string number(double value) {
  return fmt::format("{}", value);
}

// A field of an answer, as JSON. Names as in `run --csv`.
struct Field {
  const char* name;
  std::string (*value)(const Prediction& p);
};
constexpr const char* none = "null";
const std::array fields{
    Field{"strategy", [](const Prediction& p) { return quoted(p.strategy); }},
    Field{"gpus", [](const Prediction& p) { return std::to_string(p.gpus); }},
    Field{"nodes", [](const Prediction& p) { return std::to_string(p.nodes); }},
    Field{"precision", [](const Prediction& p) { return quoted(p.precision); }},
    Field{"global_batch", [](const Prediction& p) { return std::to_string(p.global_batch); }},
    Field{"micro_batch", [](const Prediction& p) { return std::to_string(p.micro_batch); }},
    Field{"gradient_accumulation",
          [](const Prediction& p) { return std::to_string(p.accumulation); }},
    Field{"step_s", [](const Prediction& p) { return number(p.step_seconds); }},
    Field{"median_step_s", [](const Prediction& p) { return number(p.median_step_seconds); }},
    Field{"step_low_s", [](const Prediction& p) { return number(p.step_interval.low); }},
    Field{"step_high_s", [](const Prediction& p) { return number(p.step_interval.high); }},
    Field{"total_s", [](const Prediction& p) { return number(p.total_seconds); }},
    Field{"samples_per_s", [](const Prediction& p) { return number(p.samples_per_second); }},
    Field{"tokens_per_s", [](const Prediction& p) { return number(p.tokens_per_second); }},
    Field{"data_loading_s", [](const Prediction& p) { return number(p.split.data_loading); }},
    Field{"forward_s", [](const Prediction& p) { return number(p.split.forward); }},
    Field{"backward_s", [](const Prediction& p) { return number(p.split.backward); }},
    Field{"optimizer_s", [](const Prediction& p) { return number(p.split.optimizer); }},
    Field{"copies_s", [](const Prediction& p) { return number(p.split.copies); }},
    Field{"exposed_communication_s",
          [](const Prediction& p) { return number(p.split.exposed_communication); }},
    Field{"host_bound_s", [](const Prediction& p) { return number(p.split.host_bound); }},
    Field{"waiting_s", [](const Prediction& p) { return number(p.split.waiting); }},
    Field{"gpu_utilisation", [](const Prediction& p) { return number(p.gpu_utilisation); }},
    Field{"mfu", [](const Prediction& p) { return number(p.mfu); }},
    Field{"allocated_bytes", [](const Prediction& p) { return number(p.memory.allocated); }},
    Field{"reserved_bytes", [](const Prediction& p) { return number(p.memory.reserved); }},
    Field{"device_bytes", [](const Prediction& p) { return number(p.memory.device); }},
    Field{"fits",
          [](const Prediction& p) { return std::string(p.out_of_memory ? "false" : "true"); }},
    Field{"memory_retries", [](const Prediction& p) { return std::to_string(p.memory.retries); }},
    Field{"staleness_mean",
          [](const Prediction& p) { return p.staleness ? number(p.staleness->mean) : none; }},
    Field{
        "worker_share_least",
        [](const Prediction& p) { return p.worker_steps ? number(p.worker_steps->least) : none; }},
    Field{"worker_share_most",
          [](const Prediction& p) { return p.worker_steps ? number(p.worker_steps->most) : none; }},
    Field{"dollars", [](const Prediction& p) { return p.dollars > 0 ? number(p.dollars) : none; }},
};

// A value as --set was given it: numbers and truth values are themselves, all else is text.
std::string set_value(const std::string& text) {
  const Json value = Json::parse(text, nullptr, false);
  return value.is_number() || value.is_boolean() ? text : quoted(text);
}

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

// RFC 4180.
std::string cell(const Json& value) {
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
  for (const Field& field : fields) {
    row += fmt::format(R"(,"{}":{})", field.name, field.value(prediction));
  }
  return row + "}\n";
}

std::string no_answer_row(const SweepPlan& plan, std::size_t number, RowKind kind,
                          const std::string& reason) {
  return beginning(plan, number, kind) + fmt::format(R"(,"reason":{}}})", quoted(reason)) + "\n";
}

RowHead read_row(const std::string& line) {
  const Json row = Json::parse(line, nullptr, false);
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
  return Json::parse(line).value("reason", "");
}

std::string csv_header(const std::string& line) {
  std::string text = "row,kind";
  const Json row = Json::parse(line);
  for (const auto& [path, value] : row["set"].items()) {
    text += "," + cell("set " + path);
  }
  for (const Field& field : fields) text += fmt::format(",{}", field.name);
  return text + ",reason\n";
}

std::string csv_row(const std::string& line) {
  const Json row = Json::parse(line);
  std::string text = cell(row["row"]) + "," + cell(row["kind"]);
  for (const auto& [path, value] : row["set"].items()) text += "," + cell(value);
  for (const Field& field : fields) text += "," + cell(row.value(field.name, Json()));
  return text + "," + cell(row.value("reason", Json())) + "\n";
}

}  // namespace lockstep
