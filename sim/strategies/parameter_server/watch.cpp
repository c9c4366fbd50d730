// See watch.hpp.
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

void PsWatch::step(const PsStep& step, double end) {
  const int worker = step.worker;
  if (!watches(worker)) return;
  const Observer::Stream compute{workers, worker, "compute"};
  std::vector<Loss> losses = std::move(losses_[worker]);
  losses_.erase(worker);
  auto loss = losses.begin();
  double base = step.started;  // moves on with what was lost
  const auto lose = [&](double until) {
    for (; loss != losses.end() && loss->at <= until + clock_precision; ++loss) {
      observer_.on_work({compute, Phase::backward, "core shared with a server", base + loss->at,
                         base + loss->at + loss->seconds, 0, 0});
      base += loss->seconds;
    }
  };
  double hosted = 0;
  for (const PsDone& each : step.done) {
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
  observer_.on_step({compute, step.number, step.started, end});
  if (hosted > 0) {
    observer_.on_step({{workers, worker, "host"}, step.number, step.started, end});
  }
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

void PsWatch::leaves(PsParcel& parcel) {
  parcel.number = observer_.number();
  if (parcel.direction == Direction::push) return;
  causes_[parcel.number] = served_[at(message(parcel.message).server)];
}

// Messages of a lane follow each other (wire.hpp).
std::string_view PsWatch::lane(const PsParcel& parcel) {
  const PsMessage& carried = message(parcel.message);
  const bool one = !system_.serial_servers &&
                   system_.workers[at(parcel.worker)].ways[at(carried.place)].one_lane;
  const std::string name =
      fmt::format("{} {} {}", parcel.direction == Direction::pull ? "pull from" : "push to",
                  one ? "place" : "server", one ? carried.place : carried.server);
  return *lanes_.insert(name).first;
}

void PsWatch::arrives(const PsParcel& parcel, double start, double end) {
  const auto cause = causes_.extract(parcel.number);
  if (!watches(parcel.worker)) return;
  const bool pull = parcel.direction == Direction::pull;
  if (pull) pulled_[parcel.worker] = {parcel.number, end};
  const PsMessage& carried = message(parcel.message);
  const double bytes = carried.bytes(parcel.direction);
  const PsWay& way = system_.workers[at(parcel.worker)].ways[at(carried.place)];
  std::vector<LinkUse> uses;
  for (const int link : system_.routes[at(way.route(parcel.direction))].links) {
    uses.push_back({link, bytes, bytes});
  }
  observer_.on_transfer({{workers, parcel.worker, lane(parcel)},
                         pull ? "pull" : "push",
                         carried.name,
                         -1,
                         bytes,
                         start,
                         start,
                         end,
                         uses,
                         parcel.number,
                         cause ? cause.mapped() : 0});
}

void PsWatch::drains(const PsParcel& parcel, double start, double end) {
  if (!watches(parcel.worker) || end <= start) return;
  observer_.on_work({{workers, parcel.worker, "out of buffers"},
                     Phase::copies,
                     message(parcel.message).name,
                     start,
                     end,
                     0,
                     parcel.number});
}

void PsWatch::serves(const PsParcel& push, double start, double end) {
  const PsMessage& served = message(push.message);
  const Observer::Number number = served_[at(served.server)] = observer_.number();
  if (!watched_servers_[at(served.server)]) return;
  observer_.on_work({{servers, served.server, "compute"},
                     Phase::optimizer,
                     served.name,
                     start,
                     end,
                     number,
                     push.number});
}

}  // namespace lockstep
