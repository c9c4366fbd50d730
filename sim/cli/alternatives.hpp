// Predicts the alternatives that scenarios list, one after the other. `run` and `report` use it: a
// file with `platform: [a, b]`, or several files, get one answer, a comparison.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/verb.hpp"
#include "results/report.hpp"
#include "scenario/alternatives.hpp"

namespace lockstep {

// The alternatives of all files, in order. The settings of `options` replace values of the files.
// Throws ConfigError if a file or a setting is invalid.
std::vector<Alternative> alternatives_of(const std::vector<std::string>& files,
                                         const CommonOptions& options);

// The answers of all alternatives.
struct AlternativesQuestion {
  ReportAlternatives comparison;  // rows in the order of the files
  // Exit code: 2 if an alternative is impossible, 1 if one has failed points (if both happen, the
  // later alternative decides); 3 if nothing fits into memory; otherwise 0.
  int code = 0;
};

// Predicts the alternatives. An impossible alternative is reported on stderr, and the others are
// still predicted. If the only alternative is impossible, throws its ConfigError. `on_answer` is
// called for each answer.
AlternativesQuestion ask_alternatives(
    const std::vector<Alternative>& alternatives, const CommonOptions& options,
    const std::function<void(const Alternative&, const AlternativeResult&)>& on_answer);

// The choice as text, such as "platform: g5.12xlarge, batch.per_gpu: 64".
std::string name_of(const std::vector<Chosen>& chosen);

// Adds --sort to a verb.
void add_sort(CLI::App& verb, std::string& key);
SortKey sort_key(const std::string& key);

}  // namespace lockstep
