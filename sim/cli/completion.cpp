// `lockstep completion SHELL` prints a script with which bash, zsh or fish completes command lines.
// The script calls the program for candidates (`lockstep completion words -- WORDS`), so it always
// knows the program's verbs (subcommands) and options.
//
//   lockstep completion bash > ~/.local/share/bash-completion/completions/lockstep
#include <fmt/format.h>

#include <algorithm>

#include "cli/described.hpp"
#include "cli/verb.hpp"
#include "hardware/machine.hpp"

namespace lockstep {

namespace {

// Option whose values are names of platforms.
constexpr const char* platforms_option = "--platforms";

// The values of an option, if only a few are allowed.
std::vector<Completion> values_of(const DescribedOption& option) {
  std::vector<Completion> values;
  const auto& names = option.names;
  const bool platform = std::find(names.begin(), names.end(), platforms_option) != names.end();
  for (const std::string& value : platform ? known_machines() : option.choices) {
    values.push_back({value, ""});
  }
  return values;
}

// The words that may follow `verb`. If the word before is an option with a value: its values.
// Otherwise: options, values of positionals, and the verb's own verbs (`calibrate collectives`).
std::vector<Completion> words_after(const DescribedVerb& verb,
                                    const std::vector<DescribedVerb>& verbs,
                                    const std::string& before) {
  std::vector<Completion> words;
  for (const DescribedOption& option : verb.options) {
    const bool is_before =
        std::find(option.names.begin(), option.names.end(), before) != option.names.end();
    if (is_before && option.takes_value) return values_of(option);
    if (option.positional) {
      for (Completion& value : values_of(option)) words.push_back(std::move(value));
    } else {
      for (const std::string& name : option.names) words.push_back({name, option.help});
    }
  }
  for (const DescribedVerb& other : verbs) {
    if (!other.name.starts_with(verb.name + " ")) continue;
    words.push_back({other.name.substr(verb.name.size() + 1), other.help});
  }
  return words;
}

}  // namespace

std::vector<Completion> completions(const std::vector<DescribedVerb>& verbs,
                                    const std::vector<std::string>& words) {
  // The word that the user is typing. Options are offered only if it begins with a dash.
  const std::string typed = words.empty() ? "" : words.back();
  std::vector<Completion> found;
  if (words.size() < 2) {
    for (const DescribedVerb& verb : verbs) {
      if (verb.name.find(' ') == std::string::npos) found.push_back({verb.name, verb.help});
    }
    for (const char* option : {"--help", "--version"}) found.push_back({option, ""});
  } else {
    const auto verb = std::find_if(verbs.begin(), verbs.end(),
                                   [&](const DescribedVerb& v) { return v.name == words.front(); });
    if (verb != verbs.end()) found = words_after(*verb, verbs, words[words.size() - 2]);
  }
  std::erase_if(found, [&](const Completion& c) {
    return !c.word.starts_with(typed) || (typed.empty() && c.word.starts_with('-'));
  });
  return found;
}

}  // namespace lockstep

namespace lockstep::completion_verb {
namespace {

// The scripts. If the program has no candidate, the shell offers files.
constexpr const char* bash_script =
    R"(# bash completion for lockstep: source this file, or put it into
# ~/.local/share/bash-completion/completions/lockstep
_lockstep() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("${line%%$'\t'*}")
  done < <(lockstep completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  ((${#COMPREPLY[@]})) && return
  compopt -o filenames 2>/dev/null
  COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _lockstep lockstep
)";
constexpr const char* zsh_script = R"(#compdef lockstep
# zsh completion for lockstep: put it as _lockstep into a folder of $fpath
_lockstep() {
  local -a found
  found=("${(@f)$(lockstep completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  found=("${(@)found//:/\\:}")
  found=("${(@)found/$'\t'/:}")
  if [[ -n $found[1] ]]; then
    _describe lockstep found
  else
    _files
  fi
}
_lockstep "$@"
)";
constexpr const char* fish_script =
    "# fish completion for lockstep: put it into ~/.config/fish/completions/lockstep.fish\n"
    "complete -c lockstep -a '(lockstep completion words -- (commandline -opc)[2..] (commandline "
    "-ct) 2>/dev/null)'\n";

Choice declare(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App& verb = *app.add_subcommand("completion", "Print a script that completes command lines");
  verb.add_option("shell", *shell, "bash, fish or zsh; words: candidates for the last of WORDS")
      ->required()
      ->check(CLI::IsMember({"bash", "fish", "zsh", "words"}));
  verb.add_option("words", *words,
                  "The words of a command line after `lockstep`, passed by the scripts");
  add_examples(verb, {"bash > ~/.local/share/bash-completion/completions/lockstep",
                      "fish > ~/.config/fish/completions/lockstep.fish"});
  return {
      &verb, [shell, words, &verb] {
        if (*shell != "words") {
          print(*shell == "bash" ? bash_script : *shell == "zsh" ? zsh_script : fish_script);
          return 0;
        }
        std::string text;
        for (const auto& [word, help] : completions(described_verbs(*verb.get_parent()), *words)) {
          text += help.empty() ? word + "\n" : fmt::format("{}\t{}\n", word, help);
        }
        print(text);
        return 0;
      }};
}
const Verb verb{VerbGroup::formats, declare};

}  // namespace

}  // namespace lockstep::completion_verb
