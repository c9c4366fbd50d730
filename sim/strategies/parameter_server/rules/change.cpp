// Phases, the controller and what becomes of steps that began under another rule (see change.hpp).
#include "strategies/parameter_server/rules/change.hpp"

#include <algorithm>
#include <utility>

#include "core/index.hpp"

namespace lockstep {

void WorkerPace::add(int worker, double seconds, double communication) {
  std::deque<Step>& steps = latest_[at(worker)];
  steps.push_back({seconds, communication});
  if (static_cast<int>(steps.size()) > window_) steps.pop_front();
}

bool WorkerPace::complete() const {
  return std::all_of(latest_.begin(), latest_.end(),
                     [&](const auto& steps) { return static_cast<int>(steps.size()) >= window_; });
}

double WorkerPace::sum(std::size_t worker, double Step::*part) const {
  double sum = 0;
  for (const Step& step : latest_[worker]) sum += step.*part;
  return sum;
}

double WorkerPace::slowest_over_median() const {
  if (!complete()) return 1;
  std::vector<double> sums;
  for (std::size_t w = 0; w < latest_.size(); ++w) sums.push_back(sum(w, &Step::seconds));
  const auto median = sums.begin() + static_cast<std::ptrdiff_t>((sums.size() - 1) / 2);
  std::nth_element(sums.begin(), median, sums.end());
  const double slowest = *std::max_element(median, sums.end());
  return *median > 0 ? slowest / *median : 1;
}

double WorkerPace::communication_share() const {
  if (!complete()) return 0;
  double communication = 0, seconds = 0;
  for (std::size_t w = 0; w < latest_.size(); ++w) {
    communication += sum(w, &Step::communication);
    seconds += sum(w, &Step::seconds);
  }
  return seconds > 0 ? communication / seconds : 0;
}

RuleChanges::RuleChanges(const PsSystem& system)
    : system_(system),
      pace_(system.workers.size(), system.controller ? system.controller->window : 0) {}

const PsRule* RuleChanges::after(int steps) {
  if (phases_ == system_.later.size() || steps < system_.later[phases_].from * system_.steps) {
    return nullptr;
  }
  return &system_.later[phases_++].rule;
}

// Looks at the workers once a round. Waiting for others is left out: it is the same for all as long
// as they wait for each other.
const PsRule* RuleChanges::after_step(int worker, double seconds, double communication,
                                      double now) {
  if (!system_.controller) return nullptr;
  pace_.add(worker, seconds, communication);
  if (++steps_ % system_.workers.size() != 0) return nullptr;
  const double apart = pace_.slowest_over_median(), share = pace_.communication_share();
  const bool changes = asynchronous_ ? system_.controller->comes_back(apart, share)
                                     : system_.controller->lets_go(apart, share);
  if (!changes) return nullptr;
  asynchronous_seconds_ = asynchronous_seconds(now);
  since_ = now;
  asynchronous_ = !asynchronous_;
  if (asynchronous_) ++stretches_;
  return asynchronous_ ? &alone_ : &system_.rule;
}

namespace {

class Midway final : public MessageRule {
 public:
  Midway(std::unique_ptr<MessageRule> rule, std::vector<int> earlier)
      : rule_(std::move(rule)), earlier_(std::move(earlier)) {}
  int pushes_per_update(int worker) const override {
    return earlier_[at(worker)] > 0 ? 1 : rule_->pushes_per_update(worker);
  }
  bool pusher_waits() const override { return rule_->pusher_waits(); }
  bool drops(std::int64_t read, std::int64_t version) const override {
    return rule_->drops(read, version);
  }
  void settled(int worker, double now) override {
    if (earlier_[at(worker)] > 0) --earlier_[at(worker)];
    rule_->settled(worker, now);
  }
  bool may_pull(int worker) override { return rule_->may_pull(worker); }
  bool may_go_on(int worker) const override { return rule_->may_go_on(worker); }

 private:
  std::unique_ptr<MessageRule> rule_;
  std::vector<int> earlier_;  // by worker
};

}  // namespace

std::unique_ptr<MessageRule> beginning_midway(std::unique_ptr<MessageRule> rule,
                                              std::vector<int> earlier) {
  return std::make_unique<Midway>(std::move(rule), std::move(earlier));
}

}  // namespace lockstep
