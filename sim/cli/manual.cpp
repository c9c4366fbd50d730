// `lockstep man` prints the manual page, as roff, from the same declarations as --help.
//
//   lockstep man | man -l -
//
// The build installs its output as lockstep.1.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "cli/described.hpp"
#include "cli/verb.hpp"

namespace lockstep {

namespace {

// Converts text to roff: escapes backslashes and hyphens, and prevents lines that begin with a
// request.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool at_begin = out.empty() || out.back() == '\n';
    if (at_begin && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

// Lines that roff must not fill, for examples.
std::string as_is(const std::string& text) {
  return ".nf\n" + roff(text) + "\n.fi\n";
}

// An option as a tagged paragraph: names and value in bold, then the help.
std::string option_text(const DescribedOption& option) {
  std::string names = fmt::format("{}", fmt::join(option.names, ", "));
  if (!option.positional && option.takes_value) {
    names += option.choices.empty() ? " VALUE" : fmt::format(" {}", fmt::join(option.choices, "|"));
  }
  return fmt::format(".TP\n.B {}\n{}\n", roff(names), roff(option.help));
}

}  // namespace

std::string manual_page(const std::vector<DescribedVerb>& verbs, const std::string& footer) {
  std::string out =
      fmt::format(".TH LOCKSTEP 1 \"\" \"lockstep {}\" \"User Commands\"\n", LOCKSTEP_VERSION);
  out +=
      ".SH NAME\nlockstep \\- predict what distributed training of a neural network costs\n"
      ".SH SYNOPSIS\n.B lockstep\n.I VERB\n[\\fIOPTIONS\\fR] [\\fIFILE\\fR...]\n"
      ".SH DESCRIPTION\nLockstep predicts time, memory, utilisation, money and accuracy of "
      "data\\-parallel training (DDP, FSDP, parameter servers) on one to thousands of GPUs from a "
      "scenario in YAML, and measures real hardware so that the predictions can be checked.\n"
      "Results go to standard output, everything else to standard error.\n.SH VERBS\n";
  for (const DescribedVerb& verb : verbs) {
    out += fmt::format(".SS {}\n{}\n", roff("lockstep " + verb.name), roff(verb.help));
    for (const DescribedOption& option : verb.options) out += option_text(option);
    if (!verb.footer.empty()) out += ".PP\n" + as_is(verb.footer);
  }
  out +=
      ".SH ENVIRONMENT\n.TP\n.B LOCKSTEP_DATA\nFolder of models, platforms and scenarios, "
      "instead of the installed one.\n";
  out += ".SH EXAMPLES AND EXIT CODES\n" + as_is(footer);
  return out;
}

}  // namespace lockstep

namespace lockstep::manual_verb {
namespace {

Choice declare(CLI::App& app) {
  CLI::App& verb = *app.add_subcommand("man", "Print the manual page");
  add_examples(verb, {"| man -l -"});
  return {&verb, [&verb] {
            const CLI::App& program = *verb.get_parent();
            print(manual_page(described_verbs(program), program.get_footer()));
            return 0;
          }};
}
const Verb verb{VerbGroup::formats, declare};

}  // namespace

}  // namespace lockstep::manual_verb
