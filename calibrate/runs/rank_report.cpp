// Writes the report of a rank as JSON, and reads it back. Each rank writes its report to a file in
// the folder of the run, where the parent reads it.
#include <nlohmann/json.hpp>

#include "runs/train_options.hpp"

namespace lockstep {

namespace {

using nlohmann::json;

json to_value(const RankStep& step) {
  return {step.begin,     step.end,  step.forward, step.backward,
          step.optimizer, step.loss, step.skipped, step.compute};
}

RankStep step_from(const json& value) {
  RankStep step;
  step.begin = value.at(0);
  step.end = value.at(1);
  step.forward = value.at(2);
  step.backward = value.at(3);
  step.optimizer = value.at(4);
  // JSON has null for a loss that is NaN or infinite.
  step.loss =
      value.at(5).is_null() ? std::numeric_limits<double>::quiet_NaN() : value.at(5).get<double>();
  step.skipped = value.at(6);
  step.compute = value.at(7);
  return step;
}

}  // namespace

std::string to_json(const RankReport& report) {
  json value;
  value["rank"] = report.rank;
  value["steps"] = json::array();
  for (const RankStep& step : report.steps) value["steps"].push_back(to_value(step));
  value["updates"] = json::array();
  for (const ServerUpdate& update : report.updates) {
    value["updates"].push_back({update.time, update.worker, update.staleness});
  }
  value["pushes"] = json::array();
  for (const ScheduledPush& push : report.pushes) {
    value["pushes"].push_back({push.time, push.worker, push.read, push.applied});
  }
  const MeasuredMemory& m = report.memory;
  value["memory"] = {m.parameters, m.buffers, m.optimizer_state, m.peak, m.reserved};
  value["test"] = {report.test_right, report.test_judged};
  value["checksum"] = report.checksum;
  return value.dump();
}

RankReport rank_report_from_json(const std::string& text) {
  try {
    const json value = json::parse(text);
    RankReport report;
    report.rank = value.at("rank");
    for (const json& step : value.at("steps")) report.steps.push_back(step_from(step));
    for (const json& update : value.at("updates")) {
      report.updates.push_back({update.at(0), update.at(1), update.at(2)});
    }
    for (const json& push : value.at("pushes")) {
      report.pushes.push_back({push.at(0), push.at(1), 0, push.at(2), push.at(3)});
    }
    const json& m = value.at("memory");
    report.memory.parameters = m.at(0);
    report.memory.buffers = m.at(1);
    report.memory.optimizer_state = m.at(2);
    report.memory.peak = m.at(3);
    report.memory.reserved = m.at(4);
    report.test_right = value.at("test").at(0);
    report.test_judged = value.at("test").at(1);
    for (const json& sum : value.at("checksum")) {
      report.checksum.push_back(sum.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                              : sum.get<double>());
    }
    return report;
  } catch (const json::exception& error) {
    throw std::runtime_error(std::string("a rank's report cannot be read: ") + error.what());
  }
}

}  // namespace lockstep
