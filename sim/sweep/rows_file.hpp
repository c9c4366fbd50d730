// The rows of a sweep on disk. Use it so that a sweep can be interrupted and continued. While it
// runs they are appended to FILE.part, in any order; at its end FILE appears, sorted and whole. If
// the program is killed, the rows in FILE.part are kept, and the next run does not repeat them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sweep/row.hpp"

namespace lockstep {

class RowsFile {
 public:
  // `numbers`: all row numbers of the complete file. Continues with the rows of an earlier run,
  // except its failed rows if asked for. Throws ConfigError if these rows belong to another sweep,
  // or another program is writing them; OutputError if the file cannot be written. Without a file
  // name: rows are kept until finish() prints them.
  RowsFile(const std::string& file, const std::string& digest, std::vector<std::size_t> numbers,
           bool retry_failed = false);
  ~RowsFile();
  RowsFile(const RowsFile&) = delete;
  RowsFile& operator=(const RowsFile&) = delete;

  std::size_t size() const { return numbers_.size(); }
  std::vector<std::size_t> missing() const;  // row numbers, ascending
  void append(std::size_t number, const std::string& line);
  void sync();  // to the disk
  // Writes all rows in order, to a file that appears whole, or (without a name) to standard output.
  void write(const std::string& file, bool csv) const;
  void finish(bool csv);  // to FILE; FILE.part goes

  struct Counts {
    std::size_t answers = 0, refused = 0, failed = 0;
    std::size_t fitting = 0;   // answers that fit into memory
    std::string first_reason;  // of the first row, by number, without an answer
  };
  Counts counts() const;

 private:
  struct Place {
    std::size_t offset = 0, size = 0;
    RowKind kind = RowKind::answer;
    bool fits = false;
  };
  void take_up(bool retry_failed);
  void remember(std::size_t number, std::size_t offset, const std::string& line);
  std::string line(std::size_t number) const;
  // All rows in their order, in large bundles.
  void put(bool csv, const std::function<void(const std::string&)>& write) const;

  std::string file_, part_;
  std::string digest_;
  std::vector<std::size_t> numbers_;
  int fd_ = -1;
  std::size_t end_ = 0;  // bytes in it
  std::map<std::size_t, Place> rows_;
};

// `lockstep sweep --merge`: the rows of several files of one sweep (its shards) as one. Throws
// ConfigError if the files belong to different sweeps, or rows are missing.
void merge_rows(const std::vector<std::string>& files, const std::string& output, bool csv);

}  // namespace lockstep
