// A server and a worker on one core (see SharedCore in run.hpp). Measured: an asynchronous
// server on the core of one of two workers, over loopback, made an update every 135.7 ms where
// service and compute on cores of their own would have made one every 113 to 117 ms.
#include "costs/interference.hpp"
#include "strategies/parameter_server/run.hpp"

namespace lockstep {

namespace {

// Waits shorter than the clock's precision would go on for ever.
constexpr double negligible = 2 * clock_precision;

}  // namespace

void SharedCore::advance(double now) {
  const double elapsed = now - since;
  since = now;
  if (!computing) return;
  computed += elapsed;
  compute_lost += elapsed * (1 - share_cores(1, demand).compute);
}

ServerDemand::ServerDemand(SharedCore* core, double cores, double now)
    : core_(core), cores_(cores) {
  if (core_ == nullptr) return;
  core_->advance(now);
  core_->demand += cores_;
  computed_ = core_->computed;
}

double ServerDemand::missed(double now) {
  if (core_ == nullptr) return 0;
  core_->advance(now);
  const double computed = core_->computed - computed_;
  computed_ = core_->computed;
  const double late = (1 - share_cores(1, cores_).communication) * computed;
  if (late > negligible) return late;
  core_->demand -= cores_;
  if (core_->demand < 1e-12) core_->demand = 0;  // a rounding's rest is no demand
  return 0;
}

SharedCore* PsRun::core_of_worker(int w) {
  if (cores_.empty()) return nullptr;  // none is shared
  const int core = system_.workers[static_cast<std::size_t>(w)].core;
  return core < 0 ? nullptr : &cores_[static_cast<std::size_t>(core)];
}

SharedCore* PsRun::core_of_server(int server) {
  const auto at = static_cast<std::size_t>(server);
  if (at >= system_.server_core.size() || system_.server_core[at] < 0) return nullptr;
  return &cores_[static_cast<std::size_t>(system_.server_core[at])];
}

void PsRun::set_computing(Worker& self, bool computing) {
  SharedCore* core = core_of_worker(self.id);
  if (core == nullptr) return;
  core->advance(executor_.now());
  core->computing = computing;
  self.lost = core->compute_lost;
}

// Seconds that servers took from the worker's compute since it was asked last: it ends that much
// later.
double PsRun::compute_lost(Worker& self) {
  SharedCore* core = core_of_worker(self.id);
  if (core == nullptr) return 0;
  core->advance(executor_.now());
  const double lost = core->compute_lost - self.lost;
  self.lost = core->compute_lost;
  if (lost <= negligible) return 0;
  if (watch_) watch_->loses(self.id, executor_.now() - self.started - self.delay, lost);
  self.delay += lost;
  self.booked_until += lost;
  self.step.device += lost;
  self.step.parts.backward += lost;
  return lost;
}

}  // namespace lockstep
