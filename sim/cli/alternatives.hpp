// The alternatives that scenarios list, asked one after the other: `run` and `report`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/verb.hpp"
#include "results/report.hpp"
#include "scenario/alternatives.hpp"

namespace lockstep {

// Of all files, with the settings of `options` instead of what they say.
std::vector<Alternative> alternatives_of(const std::vector<std::string>& files,
                                         const CommonOptions& options);

struct AlternativesQuestion {
  ReportAlternatives comparison;  // rows as written
  int code = 0;                   // 2 where an alternative cannot be, else as of one scenario
};

// An alternative that cannot be is told on stderr, and does not take the others' answers away; of
// one alone the ConfigError is thrown. `on_answer` hears of each that has an answer.
AlternativesQuestion ask_alternatives(
    const std::vector<Alternative>& alternatives, const CommonOptions& options,
    const std::function<void(const Alternative&, const AlternativeResult&)>& on_answer);

// "platform: g5.12xlarge, batch.per_gpu: 64"
std::string name_of(const std::vector<Chosen>& chosen);

void add_sort(CLI::App& verb, std::string& key);
SortKey sort_key(const std::string& key);  // "" = none

}  // namespace lockstep
