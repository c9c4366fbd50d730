// Collective curves from output of nccl-tests (https://github.com/NVIDIA/nccl-tests): the table
// that every version prints, and the JSON file that `-J FILE` writes since 2.16. Used by
// `import-collectives`. The time of a size is the out-of-place column; the in-place column is read
// only for wrong results.
#pragma once

#include <string>
#include <vector>

#include "costs/profile.hpp"

namespace lockstep {

// Answers to questions that a file may leave open.
struct NcclTestsOptions {
  // A name of Collective, for files that do not name their program (text before 2.17).
  std::string collective;
  // Replaces the number of ranks of the file; 0 = as the file says.
  int ranks = 0;
  // Replaces the number of nodes; 0 = distinct host names in the file.
  int nodes = 0;
};

// Measurements of all files, ready for a profile.
struct NcclTestsImport {
  // One per collective, ranks and nodes; points by ascending bytes.
  std::vector<ProfileCollective> curves;
  // As the first file states them; "" = not stated. E.g. device "NVIDIA A100-SXM4-80GB", NCCL
  // "2.22.3", date "2026-11-21".
  std::string device;
  std::string nccl_version;
  std::string date;
  // Remarks for a person.
  std::vector<std::string> notes;
};

// One measured size: bytes of nccl-tests' column `size`, and seconds of one collective.
struct NcclTestsRow {
  double bytes = 0;
  double seconds = 0;
};

// One execution of one of the programs.
struct NcclTestsRun {
  // E.g. "all_reduce_perf"; "" when the file does not say.
  std::string program;
  // 0 = the file does not say.
  int ranks = 0;
  int nodes = 0;
  // Line at which the run begins, for errors.
  int line = 0;
  std::string device, nccl_version, date;
  // Sizes may repeat (several types, operations or cycles).
  std::vector<NcclTestsRow> rows;
  // The closing summary is there, so the run was not cut off.
  bool finished = false;
};

// All files together; sizes measured more than once become their median.
//
// Throws ConfigError, located in the file, for: no measurements, wrong results, CPU times instead
// of collective times, a table that does not fit its heading, an unknown collective or number of
// ranks.
NcclTestsImport import_nccl_tests(const std::vector<std::string>& files,
                                  const NcclTestsOptions& options);

// The readers of the two formats (nccl_tests_text.cpp, nccl_tests_json.cpp). Throw ConfigError.
std::vector<NcclTestsRun> read_nccl_tests_text(const std::string& text, const std::string& file);
std::vector<NcclTestsRun> read_nccl_tests_json(const std::string& text, const std::string& file);

}  // namespace lockstep
