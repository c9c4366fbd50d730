// See run.hpp.
#include "strategies/parameter_server/run.hpp"

#include "costs/interference.hpp"

namespace lockstep {

namespace {

// Waits shorter than the clock's precision would go on for ever.
constexpr double negligible = 2 * clock_precision;

}  // namespace

void SharedCore::advance(double now) {
  const double elapsed = now - since_;
  since_ = now;
  if (!computing_) return;
  computed_ += elapsed;
  lost_ += elapsed * (1 - share_cores(1, demand_).compute);
}

void SharedCore::compute(bool on, double now) {
  advance(now);
  computing_ = on;
  told_ = lost_;
}

double SharedCore::compute_lost(double now) {
  advance(now);
  const double lost = lost_ - told_;
  told_ = lost_;
  return lost > negligible ? lost : 0;
}

ServerDemand::ServerDemand(SharedCore* core, double cores, double now)
    : core_(core), cores_(cores) {
  if (core_ == nullptr) return;
  core_->advance(now);
  core_->demand_ += cores_;
  computed_ = core_->computed_;
}

double ServerDemand::missed(double now) {
  if (core_ == nullptr) return 0;
  core_->advance(now);
  const double computed = core_->computed_ - computed_;
  computed_ = core_->computed_;
  const double late = (1 - share_cores(1, cores_).communication) * computed;
  if (late > negligible) return late;
  core_->demand_ -= cores_;
  if (core_->demand_ < 1e-12) core_->demand_ = 0;  // a rounding's rest is no demand
  return 0;
}

PsRun::PsRun(const PsSystem& played, Executor& player) : system(played), executor(player) {
  if (system.observer) watch = std::make_unique<PsWatch>(*system.observer, system);
  for (const double capacity : system.links) executor.add_link(capacity);
  for (const int worker : system.core_of_server) {
    if (worker >= 0) cores[worker];
  }
}

SharedCore* PsRun::core_of_worker(int worker) {
  const auto core = cores.find(worker);
  return core == cores.end() ? nullptr : &core->second;
}

SharedCore* PsRun::core_of_server(int server) {
  const std::vector<int>& workers = system.core_of_server;
  return at(server) < workers.size() ? core_of_worker(workers[at(server)]) : nullptr;
}

void PsRun::change_links(const std::vector<int>& links, const std::vector<bool>& sending) {
  for (const int link : links) {
    executor.set_capacity(link, system.capacity(link, executor.now(), sending));
  }
}

}  // namespace lockstep
