// `lockstep completion SHELL`: a script that completes verbs, options and their values.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "cli/described.hpp"
#include "cli/verb.hpp"

namespace lockstep {

namespace {

// Verbs of the first level: a verb of a verb is one of its words.
std::vector<std::string> first_words(const std::vector<DescribedVerb>& verbs) {
  std::vector<std::string> words;
  for (const DescribedVerb& verb : verbs) {
    if (verb.name.find(' ') == std::string::npos) words.push_back(verb.name);
  }
  return words;
}

// The words that follow `verb` and are neither files nor values: its options, and verbs of its own.
std::vector<std::string> words_of(const DescribedVerb& verb,
                                  const std::vector<DescribedVerb>& verbs) {
  std::vector<std::string> words;
  for (const DescribedOption& option : verb.options) {
    if (option.positional) {
      words.insert(words.end(), option.choices.begin(), option.choices.end());
    } else {
      words.insert(words.end(), option.names.begin(), option.names.end());
    }
  }
  for (const DescribedVerb& other : verbs) {
    if (other.name.starts_with(verb.name + " ")) {
      words.push_back(other.name.substr(verb.name.size() + 1));
    }
  }
  return words;
}

// What lists the names that a value may have; "" = a file.
const char* lister_of(const std::string& option) {
  return option == "--platforms" ? "platforms" : "";
}

// 'it'\''s'
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string bash_completion(const std::vector<DescribedVerb>& verbs) {
  std::string options, values;
  for (const DescribedVerb& verb : verbs) {
    if (verb.name.find(' ') != std::string::npos) continue;
    options +=
        fmt::format("    {}) words=\"{}\" ;;\n", verb.name, fmt::join(words_of(verb, verbs), " "));
    for (const DescribedOption& option : verb.options) {
      if (option.positional || !option.takes_value) continue;
      for (const std::string& name : option.names) {
        const std::string lister = lister_of(name);
        if (!option.choices.empty()) {
          values += fmt::format("    \"{} {}\") values=\"{}\" ;;\n", verb.name, name,
                                fmt::join(option.choices, " "));
        } else if (!lister.empty()) {
          values += fmt::format(
              "    \"{} {}\") values=$(lockstep list {} --csv 2>/dev/null | sed '1d;s/,.*//') ;;\n",
              verb.name, name, lister);
        }
      }
    }
  }
  return fmt::format(R"(# bash completion for lockstep: source this file, or put it into
# ~/.local/share/bash-completion/completions/lockstep
_lockstep() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  local verb=${{COMP_WORDS[1]}} words="" values=""
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "{} --help --version" -- "$current"))
    return
  fi
  case "$verb $previous" in
{}  esac
  if [[ -n $values ]]; then
    COMPREPLY=($(compgen -W "$values" -- "$current"))
    return
  fi
  case $verb in
{}  esac
  if [[ $current != -* ]]; then
    local word
    for word in $words; do
      [[ $word == -* || $word != "$current"* ]] || COMPREPLY+=("$word")
    done
    ((${{#COMPREPLY[@]}})) && return
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$current"))
    return
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -F _lockstep lockstep
)",
                     fmt::join(first_words(verbs), " "), values, options);
}

std::string zsh_completion(const std::vector<DescribedVerb>& verbs) {
  // What _arguments has between brackets ends at the next one, and colons separate.
  const auto plain = [](std::string text) {
    for (char& c : text) {
      if (c == '[' || c == ']' || c == ':') c = ' ';
    }
    return text;
  };
  std::string names, cases;
  for (const DescribedVerb& verb : verbs) {
    if (verb.name.find(' ') != std::string::npos) continue;
    names += fmt::format("    {}\n", quoted(fmt::format("{}:{}", verb.name, plain(verb.help))));
    cases += fmt::format("    {}) _arguments", verb.name);
    for (const DescribedOption& option : verb.options) {
      const std::string choices =
          option.choices.empty() ? "_files" : fmt::format("({})", fmt::join(option.choices, " "));
      if (option.positional) {
        cases +=
            fmt::format(" \\\n        {}", quoted("*:" + option.names.front() + ":" + choices));
        continue;
      }
      for (const std::string& name : option.names) {
        cases += fmt::format(" \\\n        {}",
                             quoted(fmt::format("{}[{}]{}", name, plain(option.help),
                                                option.takes_value ? ":value:" + choices : "")));
      }
    }
    cases += " ;;\n";
  }
  return fmt::format(R"(#compdef lockstep
# zsh completion for lockstep: put it as _lockstep into a folder of $fpath
_lockstep() {{
  local -a verbs=(
{}  )
  if ((CURRENT == 2)); then
    _describe 'verb' verbs
    return
  fi
  local verb=$words[2]
  shift words
  ((CURRENT--))
  case $verb in
{}  esac
}}
_lockstep "$@"
)",
                     names, cases);
}

std::string fish_completion(const std::vector<DescribedVerb>& verbs) {
  std::string out =
      "# fish completion for lockstep: put it into ~/.config/fish/completions/lockstep.fish\n"
      "complete -c lockstep -n __fish_use_subcommand -f\n";
  for (const DescribedVerb& verb : verbs) {
    if (verb.name.find(' ') != std::string::npos) continue;
    out += fmt::format("complete -c lockstep -n __fish_use_subcommand -f -a {} -d {}\n", verb.name,
                       quoted(verb.help));
    const std::string seen = quoted("__fish_seen_subcommand_from " + verb.name);
    for (const DescribedOption& option : verb.options) {
      if (option.positional) {
        if (!option.choices.empty()) {
          out += fmt::format("complete -c lockstep -n {} -f -a {}\n", seen,
                             quoted(fmt::format("{}", fmt::join(option.choices, " "))));
        }
        continue;
      }
      out += fmt::format("complete -c lockstep -n {}", seen);
      for (const std::string& name : option.names) {
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (option.takes_value) out += " -r";
      if (!option.choices.empty()) {
        out += " -f -a " + quoted(fmt::format("{}", fmt::join(option.choices, " ")));
      }
      out += " -d " + quoted(option.help) + "\n";
    }
  }
  return out;
}

}  // namespace lockstep

namespace lockstep::completion_verb {
namespace {

using Script = std::string (*)(const std::vector<DescribedVerb>&);
const std::map<std::string, Script> scripts{
    {"bash", bash_completion}, {"fish", fish_completion}, {"zsh", zsh_completion}};

Choice declare(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  CLI::App& verb = *app.add_subcommand("completion", "Print a script that completes command lines");
  verb.add_option("shell", *shell, "bash, fish or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "fish", "zsh"}));
  add_examples(verb, {"bash > ~/.local/share/bash-completion/completions/lockstep",
                      "fish > ~/.config/fish/completions/lockstep.fish"});
  return {&verb, [shell, &verb] {
            print(scripts.at(*shell)(described_verbs(*verb.get_parent())));
            return 0;
          }};
}
const Verb verb{VerbGroup::formats, declare};

}  // namespace

}  // namespace lockstep::completion_verb
