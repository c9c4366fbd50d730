// The verbs and options of the program as CLI11 knows them, as plain values: for shell completion and
// the manual page, which so cannot say anything else than --help.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lockstep {

struct DescribedOption {
  std::vector<std::string> names;  // "-j", "--jobs"; a positional's one name without dashes
  std::string help;
  std::vector<std::string> choices;  // the values allowed, where they are few
  bool positional = false;
  bool takes_value = true;
};

struct DescribedVerb {
  std::string name;  // "calibrate collectives" for a verb of a verb
  std::string help, footer;
  std::vector<DescribedOption> options;
};

// `program`: with all its verbs. Options of groups are their verb's.
std::vector<DescribedVerb> described_verbs(const CLI::App& program);

struct Completion {
  std::string word, help;
};
// Candidates for the last of `words`, which follow the program's name: verbs, options, values of
// options; nothing where a file or a value of the user's own is due.
std::vector<Completion> completions(const std::vector<DescribedVerb>& verbs,
                                    const std::vector<std::string>& words);
// A page of section 1; `footer`: what --help ends with.
std::string manual_page(const std::vector<DescribedVerb>& verbs, const std::string& footer);

}  // namespace lockstep
