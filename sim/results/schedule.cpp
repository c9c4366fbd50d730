// Reads and writes schedules of updates. The first line of a file is JSON with everything except
// the pushes. Each further line is one push as text: time, worker, message, version read, version
// made. Pushes are text because a run may have millions.
#include "results/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/output.hpp"

namespace lockstep {

namespace {

nlohmann::json written(const CompressedMean& r) {
  return {{"element", static_cast<int>(r.element)},
          {"compression", static_cast<int>(r.compression)},
          {"fraction", r.fraction},
          {"rank", r.rank},
          {"buckets", r.buckets}};
}

CompressedMean reduction_from(const nlohmann::json& json) {
  CompressedMean r;
  r.element = static_cast<GradientElement>(json.at("element").get<int>());
  r.compression = static_cast<Compression>(json.at("compression").get<int>());
  r.fraction = json.at("fraction");
  r.rank = json.at("rank");
  r.buckets = json.at("buckets").get<std::vector<std::vector<int>>>();
  return r;
}

nlohmann::json written(const std::vector<ScheduledAverage>& averages) {
  nlohmann::json result = nlohmann::json::array();
  for (const ScheduledAverage& average : averages) {
    nlohmann::json mixes = nlohmann::json::array();
    for (const auto& mix : average.mixes) mixes.push_back({mix.worker, mix.peers});
    result.push_back({average.steps_before, std::move(mixes)});
  }
  return result;
}

std::vector<ScheduledAverage> averages_from(const nlohmann::json& json) {
  std::vector<ScheduledAverage> averages;
  for (const nlohmann::json& written : json) {
    ScheduledAverage& average = averages.emplace_back();
    average.steps_before = written.at(0);
    for (const nlohmann::json& mix : written.at(1)) {
      average.mixes.push_back({mix.at(0), mix.at(1).get<std::vector<int>>()});
    }
  }
  return averages;
}

}  // namespace

int UpdateSchedule::steps_of(int worker) const {
  if (shares.empty()) return local_steps;
  const double steps = local_steps * shares.at(static_cast<std::size_t>(worker));
  return std::max(1, static_cast<int>(std::lround(steps)));
}

void write_schedule(const UpdateSchedule& schedule, const std::string& path) {
  nlohmann::json messages = nlohmann::json::array();
  for (const auto& pieces : schedule.messages) {
    nlohmann::json list = nlohmann::json::array();
    for (const ParameterPiece& p : pieces) list.push_back({p.parameter, p.first, p.count});
    messages.push_back(std::move(list));
  }
  const nlohmann::json head{{"workers", schedule.workers},
                            {"exchange", static_cast<int>(schedule.exchange)},
                            {"local_steps", schedule.local_steps},
                            {"elasticity", schedule.elasticity},
                            {"weighting", static_cast<int>(schedule.weighting)},
                            {"weighting_parameter", schedule.weighting_parameter},
                            {"pushed_as", static_cast<int>(schedule.pushed_as)},
                            {"largest_share", schedule.largest_share},
                            {"average_state", schedule.average_state},
                            {"outer_rate", schedule.outer_rate},
                            {"outer_momentum", schedule.outer_momentum},
                            {"mean", written(schedule.mean)},
                            {"shares", schedule.shares},
                            {"class_concentration", schedule.class_concentration},
                            {"averages", written(schedule.averages)},
                            {"messages", std::move(messages)}};
  // Nine digits for a time are far more than a learning curve shows.
  std::ofstream file(path);
  file << head.dump() << '\n';
  for (const ScheduledPush& p : schedule.pushes) {
    file << fmt::format("{:.9g} {} {} {} {}\n", p.time, p.worker, p.message, p.read, p.applied);
  }
  file.flush();
  if (!file) throw OutputError("cannot write " + path);
}

UpdateSchedule read_schedule(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) throw std::runtime_error(path + " cannot be read");
  const nlohmann::json head = nlohmann::json::parse(line);
  UpdateSchedule schedule;
  schedule.workers = head.at("workers");
  schedule.exchange = static_cast<Exchange>(head.at("exchange").get<int>());
  schedule.local_steps = head.at("local_steps");
  schedule.elasticity = head.at("elasticity");
  schedule.weighting = static_cast<Weighting>(head.at("weighting").get<int>());
  schedule.weighting_parameter = head.at("weighting_parameter");
  schedule.pushed_as = static_cast<PushedAs>(head.at("pushed_as").get<int>());
  schedule.largest_share = head.at("largest_share");
  schedule.average_state = head.at("average_state");
  schedule.outer_rate = head.at("outer_rate");
  schedule.outer_momentum = head.at("outer_momentum");
  schedule.mean = reduction_from(head.at("mean"));
  schedule.shares = head.at("shares").get<std::vector<double>>();
  schedule.class_concentration = head.at("class_concentration");
  schedule.averages = averages_from(head.at("averages"));
  for (const nlohmann::json& list : head.at("messages")) {
    std::vector<ParameterPiece>& pieces = schedule.messages.emplace_back();
    for (const nlohmann::json& p : list) pieces.push_back({p.at(0), p.at(1), p.at(2)});
  }
  ScheduledPush p;
  while (file >> p.time >> p.worker >> p.message >> p.read >> p.applied) {
    if (p.worker < 0 || p.worker >= schedule.workers || p.message < 0 ||
        p.message >= schedule.message_count()) {
      throw std::runtime_error(path + " names a worker or a message that it does not have");
    }
    schedule.pushes.push_back(p);
  }
  if (!file.eof()) throw std::runtime_error(path + " is damaged");
  return schedule;
}

UpdateSchedule synchronous_schedule(int workers, std::int64_t updates, double first_seconds,
                                    double seconds) {
  UpdateSchedule schedule;
  schedule.workers = workers;
  for (std::int64_t i = 0; i < updates; ++i) {
    const double time = first_seconds + static_cast<double>(i) * seconds;
    for (int w = 0; w < workers; ++w) schedule.pushes.push_back({time, w, 0, i, i + 1});
  }
  return schedule;
}

void delay_updates(UpdateSchedule& schedule) {
  for (ScheduledPush& push : schedule.pushes) {
    // Step n makes an update from gradients on the parameters after update n - 2.
    push.read = std::max<std::int64_t>(0, push.applied - 2);
  }
}

}  // namespace lockstep
