// Reports workers, messages and servers to an observer as streams: "compute" and "host" of each
// worker, one stream for each lane of messages, "compute" of each server. An event is reported when
// its end is known (engine/observer.hpp).
#include "strategies/parameter_server/watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "engine/watch.hpp"

namespace lockstep {

namespace {

// Names of the two rank groups.
constexpr std::string_view workers = "workers", servers = "servers";

}  // namespace

PsWatch::PsWatch(Observer& observer, const PsSystem& system)
    : observer_(observer), system_(system), served_(at(system.servers), 0) {
  const auto announce = [&](std::string_view group, std::size_t lanes, std::vector<int> of_rank) {
    if (of_rank.empty()) {
      of_rank.resize(lanes);
      std::iota(of_rank.begin(), of_rank.end(), 0);
    }
    observer.on_ranks(group, of_rank);
    std::vector<bool> result;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      result.push_back(observer.watches(group, static_cast<int>(lane)));
    }
    return result;
  };
  watched_ = announce(workers, system.workers.size(), system.worker_of_rank);
  watched_servers_ = announce(servers, served_.size(), {});
  for (std::size_t i = 0; i < system.links.size(); ++i) {
    const std::string_view name = i < system.link_names.size() ? system.link_names[i] : "link";
    observer.on_link({static_cast<LinkId>(i), name, name, system.links[i], 1});
  }
}

// PsDone has times that exclude losses to a shared core. `base` is the simulated time of the step's
// second 0. Each loss before the reported segment moves `base` to a later time.
void PsWatch::step(const PsStep& step, double end) {
  const int worker = step.worker;
  if (!watches(worker)) return;
  const Observer::Stream compute{workers, worker, "compute"}, host{workers, worker, "host"};
  auto loss = step.losses.begin();
  double base = step.started;
  // Reports the losses before `until`.
  const auto lose = [&](double until) {
    for (; loss != step.losses.end() && loss->at <= until + clock_precision; ++loss) {
      observer_.on_work({compute, Phase::backward, "core shared with a server", base + loss->at,
                         base + loss->at + loss->seconds, 0, 0});
      base += loss->seconds;
    }
  };
  bool hosted = false;
  for (const PsDone& each : step.done) {
    lose(each.start);
    if (each.segment == nullptr) {
      observer_.on_wait({compute, each.cause, base + each.start, base + each.end, 0});
      continue;
    }
    // On a GPU, the host issues each part; the part's work on the device refers to this launch by
    // its number. Work without host time (CPUs) has no launches.
    const PsSegment& segment = *each.segment;
    const bool issues = segment.work.host > 0;
    const Observer::Number launch = issues ? observer_.number(segment.parts.size()) : 0;
    std::vector<double> seconds;
    double issued = base + each.issued;
    for (const NamedWork::Part& part : segment.parts) {
      const Observer::Number number = launch + seconds.size();
      seconds.push_back(each.slowness.of(part.work) * part.work.busy);
      if (!issues) continue;
      const double from = std::exchange(issued, issued + part.work.host);
      observer_.on_work({host, segment.phase, part.name, from, issued, number, 0});
      hosted = true;
    }
    tell_parts(observer_, compute, segment.phase,
               {segment.parts, seconds, each.slowness, base + each.issued, base + each.start,
                base + each.end, launch});
  }
  lose(never);
  observer_.on_step({compute, step.number, step.started, end});
  if (hosted) observer_.on_step({host, step.number, step.started, end});
}

// A wait for communication refers to the pulled message whose arrival ended the wait.
void PsWatch::waits(int worker, WaitCause cause, double start, double end) {
  if (!watches(worker)) return;
  const Pulled& latest = pulled_[worker];
  const bool ended_it =
      cause == WaitCause::communication && std::abs(latest.end - end) <= clock_precision;
  const Observer::Stream compute{workers, worker, "compute"};
  observer_.on_wait({compute, cause, start, end, ended_it ? latest.number : 0});
}

// A pull is sent after its server has worked on a push. arrives() reports this work as the cause of
// the pull.
void PsWatch::leaves(PsParcel& parcel) {
  parcel.number = observer_.number();
  if (parcel.direction == Direction::push) return;
  causes_[parcel.number] = served_[at(message(parcel.message).server)];
}

// Messages of a lane travel one after the other (wire.hpp), so each lane is a stream in which
// nothing overlaps.
std::string_view PsWatch::lane(const PsParcel& parcel) {
  const PsMessage& carried = message(parcel.message);
  const bool one_lane = !system_.serial_servers &&
                        system_.workers[at(parcel.worker)].ways[at(carried.place)].one_lane;
  const std::string name =
      fmt::format("{} {} {}", parcel.direction == Direction::pull ? "pull from" : "push to",
                  one_lane ? "place" : "server", one_lane ? carried.place : carried.server);
  return *lanes_.insert(name).first;
}

// Every link of the route has carried the whole message.
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
  const Observer::Stream stream{workers, parcel.worker, lane(parcel)};
  observer_.on_transfer({stream, pull ? "pull" : "push", carried.name, -1, bytes, start, start, end,
                         uses, parcel.number, cause ? cause.mapped() : 0});
}

void PsWatch::drains(const PsParcel& parcel, double start, double end) {
  if (!watches(parcel.worker) || end <= start) return;
  const Observer::Stream buffers{workers, parcel.worker, "out of buffers"};
  const std::string_view name = message(parcel.message).name;
  observer_.on_work({buffers, Phase::copies, name, start, end, 0, parcel.number});
}

// The number is stored even if the observer does not watch the server, because a watched worker's
// pull refers to it.
void PsWatch::serves(const PsParcel& push, double start, double end) {
  const PsMessage& served = message(push.message);
  const Observer::Number number = served_[at(served.server)] = observer_.number();
  if (!watched_servers_[at(served.server)]) return;
  const Observer::Stream compute{servers, served.server, "compute"};
  observer_.on_work({compute, Phase::optimizer, served.name, start, end, number, push.number});
}

}  // namespace lockstep
