// The rows of a sweep on disk, so that a sweep can be interrupted and continued. During the sweep,
// rows are appended to FILE.part in any order; at its end FILE appears, sorted and complete. If the
// program is killed, the rows in FILE.part remain, and the next run does not repeat them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sweep/row.hpp"

namespace lockstep {

// Owns the open part file and a lock on it. Stores in memory where each row is, not its text.
class RowsFile {
 public:
  // `numbers`: all row numbers of the complete file. Continues with the rows of an earlier run,
  // from FILE.part or, if that is empty, from FILE; `retry_failed` leaves out the failed rows. If
  // `file` is "", rows are stored in a scratch file until finish() prints them. Throws ConfigError
  // if the earlier rows belong to another sweep, if another program writes to the file, or if
  // `file` is no plain file. Throws OutputError if the file cannot be written.
  RowsFile(const std::string& file, const std::string& digest, std::vector<std::size_t> numbers,
           bool retry_failed = false);
  ~RowsFile();
  RowsFile(const RowsFile&) = delete;
  RowsFile& operator=(const RowsFile&) = delete;

  std::size_t size() const { return numbers_.size(); }
  std::vector<std::size_t> missing() const;  // row numbers, ascending
  // Adds a row to the part file.
  // REQUIRES: `number` is one of the file's numbers.
  void append(std::size_t number, const std::string& line);
  void sync();  // writes appended rows to the disk, unless they are in a scratch file
  // Writes the rows so far in order to `file`, which appears only when it is complete, or to
  // standard output if the name is "".
  void write(const std::string& file, bool csv) const;
  // Writes the rows to FILE (or to standard output) and removes FILE.part.
  void finish(bool csv);

  // Number of rows by kind.
  struct Counts {
    std::size_t answers = 0, refused = 0, failed = 0;
    std::size_t fitting = 0;   // answers that fit into memory
    std::string first_reason;  // reason of the first row, by number, without an answer
  };
  Counts counts() const;

 private:
  // The bytes of a row in the part file, and the properties that counts() adds up.
  struct Place {
    std::size_t offset = 0, size = 0;
    RowKind kind = RowKind::answer;
    bool fits = false;
  };
  // Finds the rows of an earlier run.
  void take_up(bool retry_failed);
  // Stores the place of a row in the part file.
  void remember(std::size_t number, std::size_t offset, const std::string& line);
  // Reads a row from the part file.
  std::string line(std::size_t number) const;
  // Passes all rows in order to `write`, in large bundles.
  void put(bool csv, const std::function<void(const std::string&)>& write) const;

  std::string file_, part_;
  std::string digest_;
  std::vector<std::size_t> numbers_;
  int fd_ = -1;
  std::size_t end_ = 0;                // end of the part file, in bytes
  std::map<std::size_t, Place> rows_;  // by row number
};

// `lockstep sweep --merge`: joins the files of a sweep's shards. Throws ConfigError if the files
// belong to different sweeps, repeat a row, lack rows, or have lines that are no rows.
void merge_rows(const std::vector<std::string>& files, const std::string& output, bool csv);

}  // namespace lockstep
