// Starts the ranks of a distributed run as processes, waits for them, and cleans up. Every run with
// several ranks uses it.
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

// A new folder under $TMPDIR (or /tmp), which the destructor removes with its content. In it, ranks
// find each other (FileStore) and write their results, one file per rank.
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
  std::vector<EnvironmentVariable> environment;  // replaces or extends our environment
  int core = -1;                  // core to which the rank is pinned; -1 = not pinned
  std::string network_namespace;  // name of an `ip netns`; "" = ours
  std::string program;            // "" = this executable
  // Files for standard output and standard error. Without `errors`, standard error is ours; without
  // `output`, standard output goes to the rank's standard error.
  std::string output{}, errors{};
};

// Describes `ranks` processes of this executable, with the arguments `arguments(rank)` and
// measuring_environment(1). They are pinned in turn to the cores that this process may use.
std::vector<RankProcess> pinned_ranks(
    int ranks, const std::function<std::vector<std::string>(int)>& arguments);

// Removes the pinning, for ranks that compute on a GPU: their main thread, autograd's threads and
// the driver's threads need several cores, and real training does not pin them.
void unpin(std::vector<RankProcess>& ranks);

struct LaunchEnd {
  enum class How {
    finished,     // every rank exited with 0
    failed,       // a rank exited with another code; all others were ended
    too_long,     // the limit of time was reached; all ranks were ended
    interrupted,  // Ctrl-C (SIGINT, SIGTERM or SIGHUP) reached us; all ranks were ended
  };
  How how = How::finished;
  int rank = -1;        // if failed: the rank that failed first
  int exit_code = 0;    // if failed: exit code of this rank; 128 + signal if a signal killed it
  std::string message;  // for example "rank 1 (pid 1234) ended with exit code 1"; "" if finished
};

// The error of a run in which a rank was killed or had no memory. The same run may succeed on
// another machine.
constexpr int exit_rank_lost = 5;  // exit code of such a program, and of a rank without memory
class RankLost : public ExitError {
 public:
  explicit RankLost(const std::string& what) : ExitError(exit_rank_lost, what) {}
};
// Throws RankLost or std::runtime_error with `message`, as the failed run `end` requires.
[[noreturn]] void throw_failure(const LaunchEnd& end, const std::string& message);

// Starts the ranks and waits for their end. Without a file for it, standard output of a rank goes
// to our standard error, because our standard output belongs to the parent; standard input is
// /dev/null. If a rank fails, after `limit_seconds`, or on Ctrl-C, the remaining ranks get SIGTERM,
// and SIGKILL after `grace_seconds`. If this process is killed, the kernel kills the ranks. The
// same happens when the calling thread ends, so it must live as long as the process. Throws
// std::runtime_error if a process cannot be started (for example, no such namespace, core or
// program), and OutputError if an output file cannot be written.
LaunchEnd run_processes(const std::vector<RankProcess>& ranks, double grace_seconds = 2,
                        double limit_seconds = std::numeric_limits<double>::infinity());

}  // namespace lockstep
