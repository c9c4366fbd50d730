// Runs replays in a pool of processes, and keeps their results in a cache of files. The key of a
// result is a digest (FNV-1a) of the job, the schedule's content, and size and time of the
// measuring program, so a rebuilt program does not use earlier results.
#include "convergence/replays.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "core/output.hpp"
#include "launch/interrupts.hpp"
#include "launch/measuring.hpp"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The 64-bit FNV-1a hash of a text, for names of files in the cache.
std::uint64_t digest(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// The cache's folder; "" if there is none.
fs::path cache_folder() {
  const char* given = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if ((given == nullptr || *given == 0) && (home == nullptr || *home == 0)) return {};
  const fs::path base =
      given != nullptr && *given != 0 ? fs::path(given) : fs::path(home) / ".cache";
  return base / "lockstep" / "replays";
}

// The cache's file for `key`; "" if there is no cache.
fs::path kept_file(const std::string& key) {
  const fs::path folder = cache_folder();
  return folder.empty() ? folder : folder / (key + ".json");
}

// Stores an answer in the cache. Throws OutputError.
void keep_answer(const std::string& key, const std::string& answer) {
  const fs::path file = kept_file(key);
  if (file.empty()) throw OutputError("neither XDG_CACHE_HOME nor HOME is set");
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  write_text(file.string(), answer);
}

// Identifies the build of the measuring program by size and time, because another build may give
// another answer.
std::string program_mark(const std::string& program) {
  std::error_code error;
  const auto size = fs::file_size(program, error);
  const auto time = fs::last_write_time(program, error).time_since_epoch().count();
  return fmt::format("{} {}", size, time);
}

ProgramEnd learn(const std::string& program, const fs::path& file, const ReplayJob& job) {
  write_text(file.string(), to_json(job));
  ::setenv("OMP_NUM_THREADS", "1", 1);
  return run_program(program, {"worker", "replay", "--", file.string()});
}

std::int64_t samples_of_batch(const ReplayJob& job) {
  return job.plan.accumulation * job.step.samples;
}

// The number of batches of `job`. A batch of an evaluation counts as a third, because it has no
// backward.
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

// Estimates the time of all open replays by running a few batches of each batch size.
void Replays::announce(const std::vector<std::string>& open, const RunFolder& folder) {
  if (!options_.estimate) return;
  constexpr double soon = 2000;
  double least = 0;
  for (const std::string& key : open) {
    const ReplayJob& job = pending_.at(key);
    const auto images = static_cast<double>(job.train_samples > 0 ? job.train_samples : 50000);
    least += job.plan.epochs * images / static_cast<double>(samples_of_batch(job));
  }
  if (least < soon) return;                     // finished before an estimate would be
  std::map<std::int64_t, ReplayResult> probes;  // by samples in a batch
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
      const ProgramEnd end = learn(program_, folder.file("probe.job"), few);
      try {
        probe->second = replay_result_from_json(end.output);
      } catch (const std::exception&) {
        return;  // the replay itself will show the error
      }
    }
    seconds += probe->second.batch_seconds * batches_of(job, probe->second);
  }
  options_.estimate(open.size(),
                    seconds / std::min<double>(at_a_time(), static_cast<double>(open.size())));
}

void Replays::run() {
  const InterruptGuard guard;  // so that the folder is removed after Ctrl-C
  const RunFolder folder;
  std::vector<std::string> open;
  for (const auto& [key, job] : pending_) {
    const fs::path file = kept_file(key);
    const std::string known = contents(file);
    if (accepts(key, known)) continue;
    std::error_code error;
    if (!known.empty()) fs::remove(file, error);  // an incomplete file must not count as stored
    open.push_back(key);
  }
  if (!open.empty()) announce(open, folder);
  ForkOptions fork{.workers = at_a_time()};
  fork.on_progress = [&](std::size_t, double) {
    if (InterruptGuard::interrupted()) interrupt(open);
  };
  if (options_.progress) {
    options_.progress(0, open.size());
    fork.on_done = [&](std::size_t done) { options_.progress(done, open.size()); };
  }
  const auto answers = fork_map(open.size(), fork, [&](std::size_t i, const Report&) {
    const std::string& key = open[i];
    const fs::path refused = folder.file("refused");
    if (fs::exists(refused)) return std::string("refused");  // the error must be reported only once
    const ProgramEnd end = learn(program_, folder.file(key + ".job"), pending_.at(key));
    if (end.exit_code == 2) {
      std::ofstream{refused};
      return std::string("refused");
    }
    if (end.exit_code != 0) {
      throw std::runtime_error(fmt::format("the replay ended with exit code {}", end.exit_code));
    }
    // Stored at once, so that an interrupted study loses no finished replay.
    try {
      keep_answer(key, end.output);
    } catch (const OutputError&) {  // the parent tries again, and reports a failure
    }
    return end.output;
  });
  keep(open, answers);
  if (InterruptGuard::interrupted()) interrupt(open);
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

// Stores answers that the replaying process could not store.
void Replays::keep(const std::vector<std::string>& keys, const std::vector<ForkResult>& answers) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    std::error_code error;
    if (!answers[i].ok || answers[i].output == "refused" || fs::exists(kept_file(keys[i]), error))
      continue;
    try {
      keep_answer(keys[i], answers[i].output);
    } catch (const OutputError& failed) {
      not_kept_ = failed.what();
      return;
    }
  }
}

void Replays::interrupt(const std::vector<std::string>& keys) const {
  const auto kept = std::count_if(keys.begin(), keys.end(), [](const std::string& key) {
    std::error_code error;
    return fs::exists(kept_file(key), error);
  });
  throw InterruptError(fmt::format("interrupted; {} of {} trainings are kept{}", kept, keys.size(),
                                   kept > 0 ? ", the same command goes on after them" : ""));
}

}  // namespace lockstep
