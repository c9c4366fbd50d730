// Starts the ranks of a distributed run as processes, waits for them, and cleans up. Use it for
// every run with several ranks.
#pragma once

#include <filesystem>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/output.hpp"
#include "launch/environment.hpp"

namespace lockstep {

// A folder of its own under $TMPDIR (or /tmp), removed with everything in it. Ranks meet here
// (FileStore) and leave their results here, one file per rank.
class RunFolder {
 public:
  RunFolder();  // throws std::runtime_error
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(const std::string& name) const { return path_ / name; }
  std::filesystem::path result_file(int rank) const;  // "rank3.result"

 private:
  std::filesystem::path path_;
};

struct RankProcess {
  std::vector<std::string> arguments;            // without the program's name
  std::vector<EnvironmentVariable> environment;  // on top of ours
  int core = -1;                                 // pinned to it; -1 = not pinned
  std::string network_namespace;                 // name of an `ip netns`; "" = ours
  std::string program;                           // "" = this executable
  // Files; "" = our standard error for errors, and where errors go for output.
  std::string output{}, errors{};
};

// `ranks` processes of this executable: "arguments(rank)" with measuring_environment(1), each on
// core rank % cores, where `cores` are the cores that this process may use.
std::vector<RankProcess> pinned_ranks(
    int ranks, const std::function<std::vector<std::string>(int)>& arguments);

// Ranks that only feed a GPU run where they like: the main thread, autograd's and the driver's want
// cores of their own, and nobody pins them in real life.
void unpin(std::vector<RankProcess>& ranks);

struct LaunchEnd {
  enum class How {
    finished,     // every rank exited with 0
    failed,       // a rank did not; the others were ended
    too_long,     // the limit of time was reached; all ranks were ended
    interrupted,  // Ctrl-C (SIGINT, SIGTERM or SIGHUP) reached us; all ranks were ended
  };
  How how = How::finished;
  int rank = -1;        // failed: the one that failed first
  int exit_code = 0;    // failed: of that rank; 128 + signal when a signal killed it
  std::string message;  // "rank 1 (pid 1234) ended with exit code 1"; "" when finished
};

// A rank was killed, or had no memory: no fault of ours, and the same run may succeed elsewhere.
constexpr int exit_rank_lost = 5;  // of a program whose rank was lost, and of a rank without memory
class RankLost : public ExitError {
 public:
  explicit RankLost(const std::string& what) : ExitError(exit_rank_lost, what) {}
};
// Throws for a failed run: RankLost or std::runtime_error with `message`.
[[noreturn]] void throw_failure(const LaunchEnd& end, const std::string& message);

// Starts them and waits for the end. Standard output of the ranks goes to our standard error, so
// that stdout stays with the parent; standard input is /dev/null. When one fails, after
// `limit_seconds` or on Ctrl-C, the others get SIGTERM and after `grace_seconds` SIGKILL; should
// this process die, the kernel kills them (so call it from a thread that lives as long as the
// process). Throws std::runtime_error when a process cannot be started: no such namespace, core or
// program; OutputError when a file of its output cannot be written.
LaunchEnd run_processes(const std::vector<RankProcess>& ranks, double grace_seconds = 2,
                        double limit_seconds = std::numeric_limits<double>::infinity());

}  // namespace lockstep
