// Reads curves of collectives (seconds by size) from output of nccl-tests
// (https://github.com/NVIDIA/nccl-tests): the table that every version prints, or the JSON file
// that `-J FILE` writes since 2.16. `import-collectives` uses it. The time of a size comes from the
// out-of-place column; in-place columns are only checked for wrong results.
#pragma once

#include <string>
#include <vector>

#include "costs/profile.hpp"

namespace lockstep {

// Values that a file may not contain.
struct NcclTestsOptions {
  // A name of Collective, for files that do not name their program (text before 2.17).
  std::string collective;
  // Replaces the number of ranks of the file; 0 = as the file says.
  int ranks = 0;
  // Replaces the number of nodes; 0 = the number of distinct host names in the file.
  int nodes = 0;
};

// The measurements of all files, in the types of a profile.
struct NcclTestsImport {
  // One curve for each collective, number of ranks and number of nodes; its points by ascending
  // bytes.
  std::vector<ProfileCollective> curves;
  // The first stated value of each; "" if no file states it. E.g. device "NVIDIA A100-SXM4-80GB",
  // NCCL "2.22.3", date "2026-11-21".
  std::string device;
  std::string nccl_version;
  std::string date;
  // Notes for the user.
  std::vector<std::string> notes;
};

// One measured size: bytes of nccl-tests' column `size`, and seconds of one collective.
struct NcclTestsRow {
  double bytes = 0;
  double seconds = 0;
};

// One execution of one program of nccl-tests.
struct NcclTestsRun {
  // For example "all_reduce_perf"; "" if the file does not name it.
  std::string program;
  // 0 = the file does not state it.
  int ranks = 0;
  int nodes = 0;
  // Line at which the run begins, for errors.
  int line = 0;
  std::string device, nccl_version, date;
  // Sizes may repeat (several types, operations or cycles).
  std::vector<NcclTestsRow> rows;
  // Whether the closing summary exists, which shows that the run was not cut off.
  bool finished = false;
};

// Joins the measurements of all files. A size that was measured several times gets the median of
// its times.
//
// Throws ConfigError, located in the file, for: no measurements, wrong results, CPU times instead
// of collective times, a table that does not fit its heading, an unknown collective or number of
// ranks.
NcclTestsImport import_nccl_tests(const std::vector<std::string>& files,
                                  const NcclTestsOptions& options);

// Read the two formats (nccl_tests_text.cpp, nccl_tests_json.cpp). Throw ConfigError.
std::vector<NcclTestsRun> read_nccl_tests_text(const std::string& text, const std::string& file);
std::vector<NcclTestsRun> read_nccl_tests_json(const std::string& text, const std::string& file);

}  // namespace lockstep
