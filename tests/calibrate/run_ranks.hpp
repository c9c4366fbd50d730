// Runs of lockstep-calibrate with each rank as a process, and the ranks' reports. Use it in tests
// of the ranks themselves.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "calibrate/command.hpp"
#include "runs/train_options.hpp"

namespace lockstep {

using Words = std::vector<std::string>;

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The reports of the `processes` processes of one run.
inline std::vector<RankReport> run(const Words& options, int processes) {
  const RunFolder folder;
  std::vector<RankProcess> ranks = pinned_ranks(processes, [&](int rank) {
    return Words{"train"} + options + Words{"--rank",   std::to_string(rank),
                                            "--store",  folder.file("store"),
                                            "--result", folder.result_file(rank)};
  });
  for (RankProcess& rank : ranks) rank.program = LOCKSTEP_CALIBRATE;
  const LaunchEnd end = run_processes(ranks);
  if (end.how != LaunchEnd::How::finished) throw std::runtime_error(end.message);
  std::vector<RankReport> reports;
  for (int rank = 0; rank < processes; ++rank) {
    reports.push_back(rank_report_from_json(text_of(folder.result_file(rank))));
  }
  return reports;
}

}  // namespace lockstep
