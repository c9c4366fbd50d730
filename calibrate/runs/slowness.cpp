// Makes a rank slow by sleeping in proportion to its compute time. Owed sleep is collected until it
// is long enough for one sleep; time slept too long is subtracted from the next sleep.
#include "runs/slowness.hpp"

#include <chrono>
#include <thread>

#include "core/random.hpp"

namespace lockstep {

namespace {

// Seconds. After a sleep a rank computes with cold caches, so many short sleeps would make it
// slower than requested.
constexpr double shortest_sleep = 5e-3;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

double slowness_factor(const TrainOptions& options, int rank, int step) {
  const auto slow = options.slow_ranks.find(rank);
  double factor = slow == options.slow_ranks.end() ? 1 : slow->second;
  if (options.jitter > 0) {
    const DrawKey key{static_cast<std::uint64_t>(options.seed), static_cast<std::uint32_t>(rank),
                      static_cast<std::uint32_t>(step), 0};
    factor *= 1 + options.jitter * exponential_draw(key);
  }
  return factor;
}

void Slowness::begin(double factor) {
  factor_ = factor;
  since_ = now();
  owed_ = 0;
}

void Slowness::pay() {
  if (!active()) return;
  finish_device_work_();
  const double computed = now() - since_;
  owed_ += (factor_ - 1) * computed;
  since_ += computed;
  if (owed_ < shortest_sleep) return;
  std::this_thread::sleep_for(std::chrono::duration<double>(owed_));
  const double slept = now() - since_;
  owed_ -= slept;  // negative if it slept too long
  since_ += slept;
}

void Slowness::forgive() {
  since_ = now();
}

void Slowness::pause() {
  if (!active()) return;
  pay();
  if (owed_ > 0) std::this_thread::sleep_for(std::chrono::duration<double>(owed_));
  owed_ = 0;
  since_ = now();
}

}  // namespace lockstep
