// The verbs (subcommands) and options of the program, as declared with CLI11, as plain values.
// Shell completion and the manual page use them and therefore agree with --help.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lockstep {

// An option of a verb.
struct DescribedOption {
  // For example "-j", "--jobs". A positional has one name without dashes.
  std::vector<std::string> names;
  std::string help;
  std::vector<std::string> choices;  // allowed values, if there are only a few
  bool positional = false;
  bool takes_value = true;
};

// A verb, or a verb of a verb such as `calibrate collectives`.
struct DescribedVerb {
  std::string name;  // "calibrate collectives" for a verb of a verb
  std::string help, footer;
  std::vector<DescribedOption> options;
};

// All verbs of the program that are not hidden, in the order of --help. `program` is the CLI11 app
// with all verbs. Options in an option group belong to the group's verb.
std::vector<DescribedVerb> described_verbs(const CLI::App& program);

// A candidate for completion, and its help for shells that show one.
struct Completion {
  std::string word, help;
};
// Candidates for the last of `words`, which are the words after the program's name: verbs, options,
// values of options. Empty if a file or another free value is expected.
std::vector<Completion> completions(const std::vector<DescribedVerb>& verbs,
                                    const std::vector<std::string>& words);
// A manual page of section 1 as roff. `footer` is the text at the end of --help.
std::string manual_page(const std::vector<DescribedVerb>& verbs, const std::string& footer);

}  // namespace lockstep
