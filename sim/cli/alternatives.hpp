// Predicts the alternatives that scenarios list, one after the other. Used by `run` and `report`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/verb.hpp"
#include "results/report.hpp"
#include "scenario/alternatives.hpp"

namespace lockstep {

// The alternatives of all files; the settings of `options` replace values of the files.
std::vector<Alternative> alternatives_of(const std::vector<std::string>& files,
                                         const CommonOptions& options);

struct AlternativesQuestion {
  ReportAlternatives comparison;  // rows as written
  int code = 0;                   // 2 where an alternative cannot be, else as of one scenario
};

// An impossible alternative is reported on stderr, and the others are still answered. A single
// impossible alternative throws its ConfigError. `on_answer` is called for each answer.
AlternativesQuestion ask_alternatives(
    const std::vector<Alternative>& alternatives, const CommonOptions& options,
    const std::function<void(const Alternative&, const AlternativeResult&)>& on_answer);

// "platform: g5.12xlarge, batch.per_gpu: 64"
std::string name_of(const std::vector<Chosen>& chosen);

void add_sort(CLI::App& verb, std::string& key);
SortKey sort_key(const std::string& key);  // "" = none

}  // namespace lockstep
