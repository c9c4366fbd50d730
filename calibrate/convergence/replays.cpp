// See replays.hpp.
#include "convergence/replays.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "launch/measuring.hpp"
#include "points/fork_map.hpp"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// FNV-1a, of 64 bits: names a file of the cache.
std::uint64_t digest(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// "" where nothing can be kept.
fs::path cache_folder() {
  const char* given = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if ((given == nullptr || *given == 0) && (home == nullptr || *home == 0)) return {};
  const fs::path base =
      given != nullptr && *given != 0 ? fs::path(given) : fs::path(home) / ".cache";
  std::error_code error;
  fs::create_directories(base / "lockstep" / "replays", error);
  return error ? fs::path() : base / "lockstep" / "replays";
}

// What may change a replay's answer besides its job: the program. A build of another day is another
// one.
std::string program_mark(const std::string& program) {
  std::error_code error;
  const auto size = fs::file_size(program, error);
  const auto time = fs::last_write_time(program, error).time_since_epoch().count();
  return fmt::format("{} {}", size, time);
}

ProgramEnd learn(const std::string& program, const fs::path& file, const ReplayJob& job) {
  std::ofstream(file) << to_json(job);
  ::setenv("OMP_NUM_THREADS", "1", 1);
  return run_program(program, {"worker", "replay", "--", file.string()});
}

std::int64_t samples_of_batch(const ReplayJob& job) {
  return job.plan.accumulation * job.step.samples;
}

// Batches of `job`, those of its evaluations as a third: they have no backward.
double batches_of(const ReplayJob& job, const ReplayResult& probe) {
  const auto batch = static_cast<double>(samples_of_batch(job));
  const auto train = static_cast<double>(
      job.train_samples > 0 ? std::min(job.train_samples, probe.train_images) : probe.train_images);
  const auto test = static_cast<double>(job.plan.test_samples > 0
                                            ? std::min(job.plan.test_samples, probe.test_images)
                                            : probe.test_images);
  return (job.plan.epochs * train + job.plan.evaluations * test / 3) / batch;
}

}  // namespace

Replays::Replays(Location where, const ReplaysOptions& options)
    : where_(std::move(where)),
      options_(options),
      program_(measuring_program(options.verb)),
      mark_(program_mark(program_)) {}

std::string Replays::key_of(const ReplayJob& job) const {
  ReplayJob named = job;
  named.schedule.clear();
  const std::string schedule = contents(job.schedule), all = mark_ + to_json(named) + schedule;
  return fmt::format("{:016x}{:016x}", digest(all), digest(schedule + all));
}

std::string Replays::ask(const ReplayJob& job) {
  std::string key = key_of(job);
  if (results_.find(key) == results_.end()) pending_.try_emplace(key, job);
  return key;
}

const ReplayResult* Replays::result(const std::string& key) const {
  const auto found = results_.find(key);
  return found == results_.end() ? nullptr : &found->second;
}

bool Replays::accepts(const std::string& key, const std::string& answer) {
  try {
    results_[key] = replay_result_from_json(answer);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

int Replays::at_a_time() const {
  if (options_.workers > 0) return options_.workers;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// A few batches of each batch size say how fast this machine is.
void Replays::announce(const std::vector<std::string>& open) {
  if (!options_.estimate) return;
  constexpr double soon = 2000;
  double least = 0;
  for (const std::string& key : open) {
    const ReplayJob& job = pending_.at(key);
    const auto images = static_cast<double>(job.train_samples > 0 ? job.train_samples : 50000);
    least += job.plan.epochs * images / static_cast<double>(samples_of_batch(job));
  }
  if (least < soon) return;                     // done before it is said
  std::map<std::int64_t, ReplayResult> probes;  // by samples of a batch
  double seconds = 0;
  for (const std::string& key : open) {
    const ReplayJob& job = pending_.at(key);
    auto [probe, added] = probes.try_emplace(samples_of_batch(job));
    if (added) {
      ReplayJob few = job;
      few.train_samples = 0;
      few.plan.evaluations = 1;
      few.plan.test_samples = 1;
      few.plan.most_batches = 8;
      const ProgramEnd end = learn(program_, folder_.file("probe.job"), few);
      try {
        probe->second = replay_result_from_json(end.output);
      } catch (const std::exception&) {
        return;  // what is wrong shows when it learns
      }
    }
    seconds += probe->second.batch_seconds * batches_of(job, probe->second);
  }
  options_.estimate(open.size(),
                    seconds / std::min<double>(at_a_time(), static_cast<double>(open.size())));
}

void Replays::run() {
  const fs::path kept = cache_folder();
  std::vector<std::string> open;
  for (const auto& [key, job] : pending_) {
    const std::string known = kept.empty() ? "" : contents(kept / (key + ".json"));
    if (known.empty() || !accepts(key, known)) open.push_back(key);
  }
  if (!open.empty()) announce(open);
  ForkOptions fork{.workers = at_a_time()};
  if (options_.progress) {
    options_.progress(0, open.size());
    fork.on_done = [&](std::size_t done) { options_.progress(done, open.size()); };
  }
  const auto answers = fork_map(open.size(), fork, [&](std::size_t i, const Report&) {
    const std::string& key = open[i];
    const fs::path refused = folder_.file("refused");
    if (fs::exists(refused)) return std::string("refused");  // what is wrong is said once
    const ProgramEnd end = learn(program_, folder_.file(key + ".job"), pending_.at(key));
    if (end.exit_code == 2) {
      std::ofstream{refused};
      return std::string("refused");
    }
    if (end.exit_code != 0) {
      throw std::runtime_error(fmt::format("the replay ended with exit code {}", end.exit_code));
    }
    // Kept at once: what is done is not lost when the study is interrupted.
    if (!kept.empty()) {
      const fs::path part = kept / fmt::format("{}.{}", key, ::getpid());
      std::ofstream(part) << end.output;
      std::error_code error;
      fs::rename(part, kept / (key + ".json"), error);
    }
    return end.output;
  });
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].ok && answers[i].output == "refused") {
      throw ConfigError({where_, "convergence", "cannot be trained", "see above"});
    }
    if (answers[i].ok) {
      accepts(open[i], answers[i].output);
    } else if (failure_.empty()) {
      failure_ = answers[i].output;
    }
  }
  pending_.clear();
}

}  // namespace lockstep
