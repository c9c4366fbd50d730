// Reads output of nccl-tests (https://github.com/NVIDIA/nccl-tests): the table that every version
// prints, and the JSON file that `-J FILE` writes since 2.16. Used by `import-collectives`. The
// time of a size is the out-of-place column; the in-place column is read only for wrong results.
#pragma once

#include <string>
#include <vector>

#include "costs/profile.hpp"

namespace lockstep {

struct NcclTestsOptions {
  std::string collective;  // where the file does not name its program; a name of Collective
  int ranks = 0;           // 0 = as the file says
  int nodes = 0;           // 0 = distinct host names in the file
};

struct NcclTestsImport {
  std::vector<ProfileCollective> curves;  // one per collective, ranks and nodes; ascending bytes
  std::string device;                     // GPU name as printed; "" when it is not
  std::string nccl_version;               // "2.22.3"; "" when it is not stated
  std::string date;                       // "2026-11-21"; "" when it is not stated
  std::vector<std::string> notes;         // remarks for a person
};

struct NcclTestsRow {
  double bytes = 0;
  double seconds = 0;
};

// One execution of one of the programs.
struct NcclTestsRun {
  std::string program;  // "all_reduce_perf"; "" when the file does not say
  int ranks = 0;        // 0 = the file does not say
  int nodes = 0;
  int line = 0;  // where it begins
  std::string device, nccl_version, date;
  std::vector<NcclTestsRow> rows;  // sizes may repeat (several types, operations or cycles)
  bool finished = false;           // the closing summary is there
};

// All files together; sizes measured more than once become their median. Throws ConfigError,
// located in the file: no measurements, wrong results, CPU times instead of collective times, a
// table that does not fit its heading, unknown collective or number of ranks.
NcclTestsImport import_nccl_tests(const std::vector<std::string>& files,
                                  const NcclTestsOptions& options);

// The two formats (nccl_tests_text.cpp, nccl_tests_json.cpp).
std::vector<NcclTestsRun> read_nccl_tests_text(const std::string& text, const std::string& file);
std::vector<NcclTestsRun> read_nccl_tests_json(const std::string& text, const std::string& file);

}  // namespace lockstep
