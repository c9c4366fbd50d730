#include "strategies/parameter_server/watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/watch.hpp"

namespace lockstep {

namespace {

constexpr std::string_view workers = "workers", servers = "servers";

std::vector<int> in_order(std::size_t count) {
  std::vector<int> result(count);
  std::iota(result.begin(), result.end(), 0);
  return result;
}

std::vector<bool> watched_of(const Observer& observer, std::string_view group, std::size_t count) {
  std::vector<bool> result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = observer.watches(group, static_cast<int>(i));
  return result;
}

}  // namespace

PsWatch::PsWatch(Observer& observer, const PsSystem& system)
    : observer_(observer), system_(system), served_(static_cast<std::size_t>(system.servers), 0) {
  observer.on_ranks(workers, system.worker_of_rank.empty() ? in_order(system.workers.size())
                                                           : system.worker_of_rank);
  observer.on_ranks(servers, in_order(served_.size()));
  watched_ = watched_of(observer, workers, system.workers.size());
  watched_servers_ = watched_of(observer, servers, served_.size());
  for (std::size_t i = 0; i < system.links.size(); ++i) {
    const std::string_view name = i < system.link_names.size() ? system.link_names[i] : "link";
    observer.on_link({static_cast<LinkId>(i), name, name, system.links[i], 1});
  }
}

void PsWatch::loses(int worker, double at, double seconds) {
  if (watches(worker)) losses_[worker].push_back({at, seconds});
}

void PsWatch::step(int worker, int index, const std::vector<PsDone>& done, double start,
                   double end) {
  if (!watches(worker)) return;
  const Observer::Stream compute{workers, worker, "compute"};
  std::vector<Loss> losses = std::move(losses_[worker]);
  losses_.erase(worker);
  auto loss = losses.begin();
  double base = start;  // moves on with what was lost
  const auto lose = [&](double until) {
    for (; loss != losses.end() && loss->at <= until + clock_precision; ++loss) {
      observer_.on_work({compute, Phase::backward, "core shared with a server", base + loss->at,
                         base + loss->at + loss->seconds, 0, 0});
      base += loss->seconds;
    }
  };
  double hosted = 0;
  for (const PsDone& each : done) {
    lose(each.start);
    if (each.segment == nullptr) {
      observer_.on_wait({compute, each.cause, base + each.start, base + each.end, 0});
      continue;
    }
    const std::vector<NamedWork::Part>& parts = each.segment->parts;
    std::vector<double> seconds;
    for (const NamedWork::Part& part : parts) {
      seconds.push_back(each.slowness.of(part.work) * part.work.busy);
    }
    const bool host = each.segment->work.host > 0;
    const Observer::Number launch = host ? observer_.number(parts.size()) : 0;
    if (host) hosted = issue(worker, each, base, launch);
    tell_parts(observer_, compute, each.segment->phase,
               {parts, seconds, each.slowness, base + each.issued, base + each.start,
                base + each.end, launch});
  }
  lose(never);
  observer_.on_step({compute, index, start, end});
  if (hosted > 0) observer_.on_step({{workers, worker, "host"}, index, start, end});
}

// Returns when the host is through with it.
double PsWatch::issue(int worker, const PsDone& done, double base, Observer::Number first) {
  double now = base + done.issued;
  for (const NamedWork::Part& part : done.segment->parts) {
    observer_.on_work({{workers, worker, "host"},
                       done.segment->phase,
                       part.name,
                       now,
                       now + part.work.host,
                       first++,
                       0});
    now += part.work.host;
  }
  return now;
}

void PsWatch::waits(int worker, WaitCause cause, double start, double end) {
  if (!watches(worker)) return;
  const Pulled& latest = pulled_[worker];
  const bool ended_it =
      cause == WaitCause::communication && std::abs(latest.end - end) <= clock_precision;
  observer_.on_wait(
      {{workers, worker, "compute"}, cause, start, end, ended_it ? latest.number : 0});
}

Observer::Number PsWatch::leaves(bool pull, int m) {
  const Observer::Number number = observer_.number();
  if (pull) causes_[number] = served_[static_cast<std::size_t>(message(m).server)];
  return number;
}

// Messages of a lane follow each other (PsRun::send).
std::string_view PsWatch::lane(bool pull, int worker, int m) {
  const PsMessage& what = message(m);
  const PsWorker& self = system_.workers[static_cast<std::size_t>(worker)];
  const bool one = !system_.serial_servers && self.one_lane[static_cast<std::size_t>(what.place)];
  const std::string name = fmt::format("{} {} {}", pull ? "pull from" : "push to",
                                       one ? "place" : "server", one ? what.place : what.server);
  return *lanes_.insert(name).first;
}

void PsWatch::arrives(bool pull, int worker, int m, Observer::Number number, double start,
                      double end) {
  const auto cause = causes_.find(number);
  const Observer::Number after = cause == causes_.end() ? 0 : cause->second;
  if (cause != causes_.end()) causes_.erase(cause);
  if (!watches(worker)) return;
  if (pull) pulled_[worker] = {number, end};
  const PsMessage& what = message(m);
  const PsWorker& self = system_.workers[static_cast<std::size_t>(worker)];
  const double bytes = pull ? what.pull_bytes : what.push_bytes;
  const auto place = static_cast<std::size_t>(what.place);
  const PsRoute& route =
      system_.routes[static_cast<std::size_t>(pull ? self.pull[place] : self.push[place])];
  std::vector<LinkUse> uses;
  for (const int link : route.links) uses.push_back({link, bytes, bytes});
  observer_.on_transfer({{workers, worker, lane(pull, worker, m)},
                         pull ? "pull" : "push",
                         what.name,
                         -1,
                         bytes,
                         start,
                         start,
                         end,
                         uses,
                         number,
                         after});
}

void PsWatch::drains(int worker, int m, Observer::Number number, double start, double end) {
  if (!watches(worker) || end <= start) return;
  observer_.on_work(
      {{workers, worker, "out of buffers"}, Phase::copies, message(m).name, start, end, 0, number});
}

void PsWatch::serves(int m, Observer::Number push, double start, double end) {
  const int server = message(m).server;
  const Observer::Number number = served_[static_cast<std::size_t>(server)] = observer_.number();
  if (!watched_servers_[static_cast<std::size_t>(server)]) return;
  observer_.on_work(
      {{servers, server, "compute"}, Phase::optimizer, message(m).name, start, end, number, push});
}

}  // namespace lockstep
