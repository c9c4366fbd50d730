// The verbs and options of the program, as declared with CLI11, as plain values. Used for shell
// completion and the manual page, which therefore agree with --help.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lockstep {

// An option of a verb.
struct DescribedOption {
  // "-j", "--jobs"; a positional's one name without dashes.
  std::vector<std::string> names;
  std::string help;
  std::vector<std::string> choices;  // allowed values, if they are few
  bool positional = false;
  bool takes_value = true;
};

// A verb, or a verb of a verb.
struct DescribedVerb {
  std::string name;  // "calibrate collectives" for a verb of a verb
  std::string help, footer;
  std::vector<DescribedOption> options;
};

// All verbs of the program, in the order of --help. `program` is the CLI11 app with all verbs.
// Options of option groups belong to the verb of the group.
std::vector<DescribedVerb> described_verbs(const CLI::App& program);

// A candidate, and its help for shells that show one.
struct Completion {
  std::string word, help;
};
// Candidates for the last of `words`, which follow the program's name: verbs, options, values of
// options. Empty if a file or a free value is expected.
std::vector<Completion> completions(const std::vector<DescribedVerb>& verbs,
                                    const std::vector<std::string>& words);
// A manual page of section 1 as roff. `footer` is the last lines of --help.
std::string manual_page(const std::vector<DescribedVerb>& verbs, const std::string& footer);

}  // namespace lockstep
