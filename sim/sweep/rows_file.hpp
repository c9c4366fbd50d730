// The rows of a sweep on disk. While it runs they are appended to FILE.part, in any order; at its
// end FILE appears, sorted and whole. What is in FILE.part when the program is killed is not done
// again.
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
  // `numbers`: the rows that make it whole. Takes up what an earlier run left behind, but, if asked
  // for, not its failed rows. Throws ConfigError when that is of another sweep, or another program
  // is at it now; OutputError when it cannot be written. Without a file name: rows are kept until
  // finish() prints them.
  RowsFile(const std::string& file, const std::string& digest, std::vector<std::size_t> numbers,
           bool retry_failed = false);
  ~RowsFile();
  RowsFile(const RowsFile&) = delete;
  RowsFile& operator=(const RowsFile&) = delete;

  std::size_t size() const { return numbers_.size(); }
  std::vector<std::size_t> missing() const;  // row numbers, ascending
  void append(std::size_t number, const std::string& line);
  void sync();  // to the disk
  // All rows in their order to a file that appears whole, or (without a name) to standard output.
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
// ConfigError when they are not, or rows are missing.
void merge_rows(const std::vector<std::string>& files, const std::string& output, bool csv);

}  // namespace lockstep
