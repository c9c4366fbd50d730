// Reads the table that nccl-tests prints. Its columns differ between versions: `error` (largest
// deviation) or `#wrong` (count), with or without `redop` and `root`, perhaps followed by
// `timestamp` and per-iteration columns. So columns are found by the heading, and counted from the
// right, because columns before the first time may be blank. Other lines (logs of NCCL or mpirun)
// are used only for the command and for NCCL's version.
//
//   # nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 ...
//   #  Rank  0 Group  0 Pid  13313 on  node-1 device  0 [0x4f] NVIDIA A800 80GB PCIe
//   #  size count  type redop root  time algbw busbw #wrong  time algbw busbw #wrong
//   #   (B)  (elements)             (us) (GB/s) (GB/s)       (us) (GB/s) (GB/s)
//      1024   256 float   sum   -1 23.41  0.04  0.08      0 23.12  0.04  0.08      0
//   # Out of bounds values : 0 OK
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "core/errors.hpp"
#include "imports/nccl_tests.hpp"

namespace lockstep {
namespace {

// A word of a line, and the column (from 1) of its first character, for errors.
struct Token {
  std::string text;
  int column = 1;
};

std::vector<Token> tokens_of(const std::string& line) {
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < line.size();) {
    if (std::isspace(static_cast<unsigned char>(line[i]))) {
      ++i;
      continue;
    }
    const std::size_t begin = i;
    while (i < line.size() && !std::isspace(static_cast<unsigned char>(line[i]))) ++i;
    tokens.push_back({line.substr(begin, i - begin), static_cast<int>(begin) + 1});
  }
  return tokens;
}

bool is_count(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// A state machine over the lines. Comment lines describe the next run, and lines that begin with a
// number are its rows. The name of a test, the line with `nThread`, or a new command ends the run
// before it.
class NcclTextReader {
 public:
  explicit NcclTextReader(std::string file) : file_(std::move(file)) {}

  std::vector<NcclTestsRun> read(const std::string& text) {
    std::istringstream lines(text);
    std::string line;
    while (std::getline(lines, line)) {
      ++line_;
      // `mpirun --tag-output`, for example, prefixes lines: "[1,0]<stdout>:# Rank ..."
      if (const auto tag = line.find("<stdout>:"); tag != std::string::npos && tag < 16)
        line.replace(0, tag + 9, tag + 9, ' ');
      take(line);
    }
    finish_run();
    if (runs_.empty())
      throw file_error(file_, "", "holds no measurements of nccl-tests",
                       "the output of all_reduce_perf and its like, or the file of their -J");
    return std::move(runs_);
  }

 private:
  [[noreturn]] void fail(int column, const std::string& message,
                         const std::string& hint = "") const {
    throw ConfigError(Diagnostic{{file_, line_, column}, "", message, hint});
  }

  // Sorts a line into comment, row of the table, or other text.
  void take(const std::string& line) {
    const auto tokens = tokens_of(line);
    if (tokens.empty()) return;
    if (tokens[0].text.front() == '#')
      comment(line, tokens);
    else if (is_count(tokens[0].text) && !columns_.empty())
      row(tokens);
    else
      other(tokens);
  }

  // Handles a line that is neither comment nor row. It may contain the command or NCCL's version.
  void other(const std::vector<Token>& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::string& text = tokens[i].text;
      if (text == "version" && i > 0 && tokens[i - 1].text == "NCCL" && i + 1 < tokens.size())
        version_ = tokens[i + 1].text.substr(0, tokens[i + 1].text.find('+'));
      const auto slash = text.rfind('/');
      const std::string base = slash == std::string::npos ? text : text.substr(slash + 1);
      // A word like ./build/all_reduce_perf names the program of the rows that follow.
      if (const auto end = base.find("_perf"); end != std::string::npos && end > 0) {
        if (!run_.rows.empty()) finish_run();
        typed_ = base.substr(0, end + 5);
      }
    }
  }

  // Handles a line that begins with #: the name of the test (since 2.17), versions, threads and
  // GPUs of each process, a rank, the heading, or the summary.
  void comment(const std::string& line, const std::vector<Token>& tokens) {
    const auto is = [&](std::size_t i, const char* word) {
      return i < tokens.size() && tokens[i].text == word;
    };
    if (line.find("Collective test starting:") != std::string::npos) {
      finish_run();
      run_.program = tokens.back().text;
    } else if (is(1, "nccl-tests") && is(2, "version")) {
      const auto at = line.find("nccl-library=");
      if (at != std::string::npos) code_ = std::atoi(line.c_str() + at + 13);
    } else if (is(1, "nThread") && is(3, "nGpus") && tokens.size() > 4) {
      if (!run_.rows.empty()) finish_run();
      // Ranks of each process.
      per_process_ = std::atoi(tokens[2].text.c_str()) * std::atoi(tokens[4].text.c_str());
    } else if (is(1, "Rank") && tokens.size() > 5) {
      rank(line, tokens);
    } else if (is(1, "size") && is(2, "count")) {
      heading(tokens);
    } else if (line.find("Out of bounds values") != std::string::npos) {
      run_.finished = true;
      // If the table has `error` columns, a failed summary may be due to rounding; with `#wrong` it
      // cannot.
      if (line.find("FAILED") != std::string::npos && !old_errors_)
        fail(1, "the run itself reports wrong results",
             "find out why before trusting its times; nothing was imported");
    }
  }

  // Handles a line "# Rank 0 Group 0 Pid 13313 on node-1 device 0 [0x4f] NVIDIA A800 80GB PCIe":
  // collects ranks and hosts of each group (communicator), and the name of the GPU.
  void rank(const std::string& line, const std::vector<Token>& tokens) {
    const int number = std::atoi(tokens[2].text.c_str());
    std::string group = "0", host;
    for (std::size_t i = 3; i + 1 < tokens.size(); ++i) {
      if (tokens[i].text == "Group") group = tokens[i + 1].text;
      if (tokens[i].text == "on" && host.empty()) host = tokens[i + 1].text;
    }
    if (run_.line == 0) run_.line = line_;
    // If nccl-tests was built without MPI, every process calls itself rank 0.
    if (!ranks_[group].insert(number).second)
      fail(tokens[2].column, fmt::format("rank {} is listed twice: independent processes", number),
           "build nccl-tests with MPI=1 so that they form one communicator");
    hosts_[group].insert(host);
    const auto bracket = line.find("] ");
    if (run_.device.empty() && bracket != std::string::npos)
      run_.device = line.substr(bracket + 2, line.find_last_not_of(" \r") - bracket - 1);
  }

  // Stores the columns of the table. The first `time` is the out-of-place time.
  void heading(const std::vector<Token>& tokens) {
    std::vector<std::string> columns;
    for (std::size_t i = 1; i < tokens.size(); ++i) columns.push_back(tokens[i].text);
    const auto find = [&](const char* name) {
      return std::find(columns.begin(), columns.end(), name) - columns.begin();
    };
    const auto end = static_cast<std::ptrdiff_t>(columns.size());
    if (find("cputime") != end)
      fail(tokens[1].column, "holds the CPU time of the calls, not of the collectives",
           "measure without -C");
    time_ = static_cast<std::size_t>(find("time"));
    if (time_ >= columns.size()) fail(tokens[1].column, "a table without a column 'time'");
    old_errors_ = find("#wrong") == end;
    columns_ = std::move(columns);
    if (run_.line == 0) run_.line = line_;
  }

  // Handles a row of the table: checks out-of-place and in-place results for errors, and stores the
  // size and the out-of-place time.
  void row(const std::vector<Token>& tokens) {
    // The heading `timestamp` is one word, but its value has two.
    const std::size_t words = columns_.size() + (columns_.back() == "timestamp" ? 1 : 0);
    // Number of words from the first time to the end of the row. Before the first time, the columns
    // `redop` and `root` may be blank, but size, count and type never are.
    const std::size_t numbers = words - time_;
    if (tokens.size() > words || tokens.size() < numbers + 3)
      fail(tokens[0].column,
           fmt::format("{} values in a table of {} columns", tokens.size(), words),
           "a line that was cut off, or that another process wrote into");
    const double bytes = number(tokens[0]);
    const std::size_t first = tokens.size() - numbers;
    if (!old_errors_) {
      for (std::size_t i = time_; i < columns_.size(); ++i)
        if (columns_[i] == "#wrong") require_right(tokens[first + i - time_]);
    }
    // nccl-tests rounds a size that is too small to be split among the ranks down to 0.
    if (bytes == 0) return;
    const double microseconds = number(tokens[first]);
    if (!(microseconds > 0)) fail(tokens[first].column, "a time must be positive");
    run_.rows.push_back({bytes, microseconds * 1e-6});
  }

  void require_right(const Token& wrong) const {
    if (wrong.text == "N/A" || number(wrong) == 0) return;
    fail(wrong.column, fmt::format("#wrong: {} wrong values in the result", wrong.text),
         "find out why before trusting the times; nothing was imported");
  }

  double number(const Token& token) const {
    char* end = nullptr;
    const double value = std::strtod(token.text.c_str(), &end);
    if (token.text.empty() || *end != '\0')
      fail(token.column, in_quotes(token.text) + " is no number");
    return value;
  }

  // Completes the run, if it has rows, and starts the next one. With NCCL_TESTS_SPLIT there are
  // several communicators; only the ranks of the first are counted.
  void finish_run() {
    if (!run_.rows.empty()) {
      if (run_.program.empty()) run_.program = typed_;
      if (!ranks_.empty()) {
        run_.ranks = static_cast<int>(ranks_.begin()->second.size());
        run_.nodes = static_cast<int>(hosts_.begin()->second.size());
        // nccl-tests prints at most 2048 characters of the device list per process. If the number
        // of listed ranks is no multiple of the ranks per process, the list was cut and the number
        // is unknown.
        if (per_process_ > 0 && ranks_.size() == 1 && run_.ranks % per_process_ != 0)
          run_.ranks = 0;
      }
      run_.nccl_version =
          code_ > 0 ? fmt::format("{}.{}.{}", code_ / 10000, code_ / 100 % 100, code_ % 100)
                    : version_;
      runs_.push_back(run_);
    }
    run_ = {};
    ranks_.clear();
    hosts_.clear();
    columns_.clear();
    per_process_ = 0;
  }

  std::string file_;
  int line_ = 0;
  NcclTestsRun run_;
  std::vector<NcclTestsRun> runs_;
  // Ranks and hosts by group (communicator).
  std::map<std::string, std::set<int>> ranks_;
  std::map<std::string, std::set<std::string>> hosts_;
  // Words of the heading; empty until a heading has been read.
  std::vector<std::string> columns_;
  // Index of the out-of-place time in `columns_`.
  std::size_t time_ = 0;
  // Whether the table has `error` instead of `#wrong`. Such errors may be due to rounding.
  bool old_errors_ = false;
  // Ranks per process, and NCCL's version as its number; 0 = not stated.
  int per_process_ = 0, code_ = 0;
  // NCCL's version as the log states it, and the program of the last command line.
  std::string version_, typed_;
};

}  // namespace

std::vector<NcclTestsRun> read_nccl_tests_text(const std::string& text, const std::string& file) {
  return NcclTextReader(file).read(text);
}

}  // namespace lockstep
