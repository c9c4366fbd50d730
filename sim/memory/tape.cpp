// Counts every allocation by kind and moment, and stores the account at the highest point. The step
// for the log is chosen after all steps are played: the one with the highest peak, and among equal
// ones the last, because its fragmentation repeats in later steps.
#include "memory/tape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "memory/liveness.hpp"

namespace lockstep {

namespace {

// "output of features.0", "bucket 3".
std::string text_of(const Subject& subject) {
  std::string text(subject.name);
  if (!subject.of.empty()) text += fmt::format(" of {}", subject.of);
  if (subject.which >= 0) text += fmt::format(" {}", subject.which);
  return text;
}

}  // namespace

std::string moment_text(MemoryPhase phase, int layer, const TrainingStep* step) {
  const auto of_layer = [&](const char* pass) {
    return fmt::format("{} of {}", pass, step->layers[layer].name);
  };
  switch (phase) {
    case MemoryPhase::construction:
      return "construction";
    case MemoryPhase::inputs:
      return "copying the inputs";
    case MemoryPhase::forward:
      return of_layer("forward");
    case MemoryPhase::recomputation:
      return of_layer("recomputation");
    case MemoryPhase::backward:
      return of_layer("backward");
    case MemoryPhase::optimizer:
      return "optimizer step";
    case MemoryPhase::serving:
      return "serving workers";
  }
  return "";
}

Tape::Block Tape::allocate(MemoryKind kind, double bytes, const Subject& subject, Stream stream) {
  const Block block = allocator_.allocate(whole_bytes(bytes), stream);
  record(block, kind, subject);
  return block;
}

Tape::Block Tape::try_workspace(double bytes) {
  const auto block = allocator_.try_allocate(whole_bytes(bytes));
  if (!block) return CachingAllocator::nothing;
  record(*block, MemoryKind::workspace, {});
  return *block;
}

// Without a log, a request that a free block can serve changes only the peak. In this common case
// the allocator's lists are not touched, which is much faster.
void Tape::touch(MemoryKind kind, double bytes, const Subject& subject) {
  const auto taken = log_ == nullptr ? allocator_.touch(whole_bytes(bytes)) : std::nullopt;
  if (!taken) return free(allocate(kind, bytes, subject));
  if (allocator_.allocated() + *taken <= peak_) return;
  peak_ = allocator_.allocated() + *taken;
  peak_moment_ = {phase_, layer_};
  at_peak_ = live_;
  at_peak_[static_cast<std::size_t>(kind)] += *taken;
}

// Adds a new block to the account, and updates the peak, the moment's highest account and the
// moment of the first failure.
void Tape::record(Block block, MemoryKind kind, const Subject& subject) {
  if (block == CachingAllocator::nothing) return;
  if (static_cast<std::size_t>(block) >= kinds_.size()) kinds_.resize(2 * block + 64);
  kinds_[block] = kind;
  if (log_) {
    life_.resize(kinds_.size());
    life_[block] = lives_.size();
    lives_.push_back({kind,
                      {phase_, layer_},
                      subject,
                      allocator_.block_bytes(block),
                      std::numeric_limits<std::size_t>::max()});
  }
  live_[static_cast<std::size_t>(kind)] += allocator_.block_bytes(block);
  if (log_ && !log_->moments.empty() && allocator_.allocated() > moment_peak_) {
    moment_peak_ = allocator_.allocated();
    log_->moments.back().highest = live_;
  }
  if (allocator_.allocated() > peak_) {
    peak_ = allocator_.allocated();
    peak_moment_ = {phase_, layer_};
    if (log_) peak_life_ = lives_.size() - 1;
    at_peak_ = live_;
  }
  if (allocator_.out_of_memory() && !failed_) {
    failed_ = true;
    failure_moment_ = {phase_, layer_};
  }
}

void Tape::begin_moment() {
  end_moment();
  log_->moments.push_back({phase_, layer_, micro_batch_, live_, live_});
  log_steps_.push_back(step_);
  moment_peak_ = total_bytes(live_);
}

void Tape::end_moment() {
  if (!log_->moments.empty()) log_->moments.back().after = live_;
}

// Keeps only the moments of the step with the highest peak; of several equal steps the last one.
// Moments of the construction belong to step -1 and are dropped.
void Tape::end_log(const TrainingStep& step) {
  if (!log_) return;
  end_moment();
  int chosen = -1;
  std::int64_t most = -1;
  for (std::size_t i = 0; i < log_->moments.size(); ++i) {
    const std::int64_t bytes = total_bytes(log_->moments[i].highest);
    if (log_steps_[i] >= 0 && bytes >= most) {
      most = bytes;
      chosen = log_steps_[i];
    }
  }
  MemoryLog kept{{}, living_at_peak(step)};
  for (std::size_t i = 0; i < log_->moments.size(); ++i) {
    if (log_steps_[i] == chosen) kept.moments.push_back(log_->moments[i]);
  }
  *log_ = std::move(kept);
}

// The blocks that were alive at the allocation that made the peak, joined by name and kind, the
// largest first.
std::vector<LiveTensors> Tape::living_at_peak(const TrainingStep& step) const {
  std::map<std::pair<std::string, MemoryKind>, LiveTensors> by_name;
  for (std::size_t i = 0; i < lives_.size() && i <= peak_life_; ++i) {
    const Life& life = lives_[i];
    if (life.gone <= peak_life_) continue;
    std::string name = life.subject.name.empty()
                           ? moment_text(life.moment.phase, life.moment.layer, &step)
                           : text_of(life.subject);
    LiveTensors& tensors = by_name[{name, life.kind}];
    tensors.name = std::move(name);
    tensors.kind = life.kind;
    ++tensors.count;
    tensors.bytes += life.bytes;
  }
  std::vector<LiveTensors> result;
  for (auto& [key, tensors] : by_name) result.push_back(std::move(tensors));
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return result;
}

void Tape::forget(Block block) {
  live_[static_cast<std::size_t>(kinds_[block])] -= allocator_.block_bytes(block);
  if (log_) lives_[life_[block]].gone = lives_.size();
}

void Tape::free(Block block) {
  if (block == CachingAllocator::nothing) return;
  forget(block);
  allocator_.free(block);
}

void Tape::free(std::vector<Block>& blocks) {
  for (const Block block : blocks) free(block);
  blocks.clear();
}

void Tape::free_after(Block block, std::int64_t event) {
  if (block == CachingAllocator::nothing) return;
  forget(block);
  allocator_.free_after(block, event);
}

StepMemory Tape::summary(const TrainingStep* step, double outside_bytes,
                         std::int64_t capacity) const {
  StepMemory result;
  result.allocated = static_cast<double>(allocator_.peak_allocated());
  result.reserved = static_cast<double>(allocator_.peak_reserved());
  result.device = result.reserved + outside_bytes;
  result.moment = moment_text(peak_moment_.phase, peak_moment_.layer, step);
  for (std::size_t i = 0; i < at_peak_.size(); ++i) {
    if (at_peak_[i] > 0) {
      result.at_peak[memory_kind_names[i]] = static_cast<double>(at_peak_[i]);
    }
  }
  result.out_of_memory = allocator_.out_of_memory();
  result.retries = allocator_.retries();
  if (result.out_of_memory) {
    result.failed_at = moment_text(failure_moment_.phase, failure_moment_.layer, step);
    result.shortfall = static_cast<double>(allocator_.peak_reserved() - capacity);
  }
  return result;
}

}  // namespace lockstep
