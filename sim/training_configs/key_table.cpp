// Reads key tables, and applies them to configs. Every leaf of a config's tree gets exactly one
// account (KeyAccount): the most specific matching rule determines its fate, and a leaf without a
// rule is unknown.
#include "training_configs/key_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {
namespace {

std::vector<std::string> word_list(const Node& node) {
  std::vector<std::string> words;
  for (const Node& element : node.elements()) words.push_back(element.scalar());
  return words;
}

// Reads an entry of `keys`: only a fact's name, or a map with `sets`, `words` and `first`.
ConfigKeyRule mapped_rule(const std::string& pattern, const Node& node) {
  ConfigKeyRule rule;
  rule.pattern = pattern;
  if (node.kind() == Node::Kind::scalar) {
    rule.fact = node.scalar();
    return rule;
  }
  if (const auto fact = node.find("sets")) rule.fact = fact->scalar();
  rule.first = node.find("first").has_value();
  if (const auto words = node.find("words")) {
    for (const auto& [word, meaning] : words->entries())
      rule.words.emplace_back(lower_case(word), meaning.scalar());
  }
  return rule;
}

// Adds a rule for each key of a section. The section has groups of keys, each with one reason.
void add_groups(const Node& root, const char* name, KeyFate fate, KeyTable& table) {
  const auto groups = root.find(name);
  if (!groups) return;
  for (const Node& group : groups->elements()) {
    ConfigKeyRule rule;
    rule.fate = fate;
    if (const auto because = group.find("because")) rule.because = because->scalar();
    if (const auto unless = group.find("unless")) {
      for (const std::string& word : word_list(*unless)) rule.unless.push_back(lower_case(word));
    }
    for (const std::string& key : word_list(*group.find("keys"))) {
      rule.pattern = key;
      table.rules.push_back(rule);
    }
  }
}

// Matches one part between dots; the pattern has at most one star.
bool part_matches(std::string_view pattern, std::string_view part) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == part;
  const std::string_view head = pattern.substr(0, star), tail = pattern.substr(star + 1);
  return part.size() >= head.size() + tail.size() && part.starts_with(head) && part.ends_with(tail);
}

// The text of a leaf. A list becomes one value in YAML's flow style.
std::string value_text(const Node& node) {
  if (node.kind() == Node::Kind::null) return "null";
  if (node.kind() == Node::Kind::scalar) return node.scalar();
  if (node.kind() == Node::Kind::map && node.entries().empty()) return "{}";
  return flow_text(node);
}

// Whether the node becomes a single fact: a scalar, an empty map, or a list of plain values.
bool is_leaf(const Node& node) {
  if (node.kind() == Node::Kind::map) return node.entries().empty();
  if (node.kind() != Node::Kind::sequence) return true;
  const std::vector<Node> elements = node.elements();
  return std::none_of(elements.begin(), elements.end(), [](const Node& element) {
    return element.kind() == Node::Kind::map || element.kind() == Node::Kind::sequence;
  });
}

// In many files, keys that begin with an underscore are comments; but Hydra's _target_ names a
// class.
bool is_comment(const std::string& key) {
  const std::size_t dot = key.rfind('.');
  const std::string last = dot == std::string::npos ? key : key.substr(dot + 1);
  return (last.starts_with('_') && last != "_target_") || key.starts_with("_param_docs");
}

// Walks through a config's tree and states its leaves as facts.
class Statement {
 public:
  Statement(const KeyTable& table, Facts& facts, std::vector<KeyAccount>& accounts)
      : table_(table), facts_(facts), accounts_(accounts) {}

  // States the node at `key` if it is a leaf, otherwise all leaves below it. `where` is the key's
  // place.
  void state(const Node& node, const std::string& key, const Location& where) {
    if (!is_leaf(node)) return descend(node, key);
    KeyAccount account{
        key, where, value_text(node), KeyFate::unknown, "", "no key that Lockstep knows"};
    if (is_comment(key)) {
      account.fate = KeyFate::without_effect;
      account.meaning = "a comment";
    } else if (const ConfigKeyRule* rule = rule_of(key)) {
      apply(*rule, account, node);
      // A key without a rule has no effect if it is null or an empty map.
    } else if (node.kind() == Node::Kind::null || account.value == "{}") {
      account.fate = KeyFate::without_effect;
      account.meaning = "not set";
      // Strict programs check only keys at the root.
    } else if (table_.strict && key.find('.') == std::string::npos) {
      account.fate = KeyFate::refused;
      account.meaning = fmt::format("unknown key, which {} itself refuses", table_.format);
    }
    if (account.value.size() > 60) account.value = account.value.substr(0, 57) + "...";
    accounts_.push_back(std::move(account));
  }

 private:
  void descend(const Node& node, const std::string& key) {
    if (node.kind() == Node::Kind::sequence) {
      for (const Node& element : node.elements()) state(element, key + "[]", element.where());
      return;
    }
    for (const auto& [name, value] : node.entries()) {
      state(value, key.empty() ? name : key + "." + name, node.key_location(name));
    }
  }

  // The rule with the most specific pattern: an exact pattern if one matches, otherwise the
  // longest.
  const ConfigKeyRule* rule_of(const std::string& key) const {
    const ConfigKeyRule* best = nullptr;
    for (const ConfigKeyRule& rule : table_.rules) {
      if (!key_matches(rule.pattern, key)) continue;
      const bool exact = rule.pattern.find('*') == std::string::npos;
      if (exact) return &rule;
      if (!best || rule.pattern.size() > best->pattern.size()) best = &rule;
    }
    return best;
  }

  // Determines the fate of a value by its rule, and states the fact if the key is mapped. A value
  // with a remaining `${` depends on the running program. A second file or an option must answer
  // `auto`.
  void apply(const ConfigKeyRule& rule, KeyAccount& account, const Node& node) {
    account.fate = rule.fate;
    account.meaning = rule.because;
    const std::string value = lower_case(account.value);
    if (rule.fate == KeyFate::refused || rule.fate == KeyFate::approximated) {
      const bool idle =
          node.kind() == Node::Kind::null ||
          std::find(rule.unless.begin(), rule.unless.end(), value) != rule.unless.end();
      if (!idle) return;
      account.fate = KeyFate::without_effect;
      account.meaning = "off";
      return;
    }
    if (rule.fate != KeyFate::mapped) return;
    if (node.kind() == Node::Kind::null) {
      account.fate = KeyFate::without_effect;
      account.meaning = "not set";
      return;
    }
    if (value.find("${") != std::string::npos) {
      account.fate = KeyFate::asked;
      account.meaning = "its value is known only when the program runs";
      return;
    }
    std::string meaning = account.value;
    for (const auto& [word, translated] : rule.words) {
      if (word == value || word == "*") {
        meaning = translated;
        break;
      }
    }
    if (meaning.starts_with('!') || meaning.starts_with('~')) {
      account.fate = meaning[0] == '!' ? KeyFate::refused : KeyFate::approximated;
      account.meaning = meaning.substr(1);
    } else if (meaning.empty()) {
      account.fate = KeyFate::without_effect;
      account.meaning = "off";
    } else if (lower_case(meaning) == "auto" && rule.words.empty()) {
      account.fate = KeyFate::asked;
      account.fact = rule.fact;
    } else if (rule.first && facts_.has(rule.fact) && facts_.peek(rule.fact)->value != meaning) {
      account.fate = KeyFate::approximated;
      account.meaning =
          fmt::format("the first, {}, is priced for all", facts_.peek(rule.fact)->value);
    } else {
      account.fact = rule.fact;
      facts_.set(rule.fact, {meaning, account.where, account.key});
    }
  }

  const KeyTable& table_;
  Facts& facts_;
  std::vector<KeyAccount>& accounts_;
};

}  // namespace

// Compares part by part. "a.**" also matches "a", and "a.*" matches everything below "a".
bool key_matches(std::string_view pattern, std::string_view key) {
  while (true) {
    if (pattern == "**") return true;
    const std::size_t dot = pattern.find('.'), end = key.find('.');
    std::string_view part = key.substr(0, end);
    // An element of a list has the name of the list.
    while (part.ends_with("[]")) part.remove_suffix(2);
    if (!part_matches(pattern.substr(0, dot), part)) return false;
    const bool last = dot == std::string_view::npos, ended = end == std::string_view::npos;
    if (ended) return last || pattern.substr(dot) == ".**";
    if (last) return pattern.ends_with('*');
    pattern.remove_prefix(dot + 1);
    key.remove_prefix(end + 1);
  }
}

KeyTable key_table(std::string_view text, const std::string& name) {
  const Node root = Node::parse_text(text, name);
  KeyTable table;
  table.format = root.find("format")->scalar();
  table.strict = root.find("strict").has_value();
  if (const auto keys = root.find("keys")) {
    for (const auto& [pattern, node] : keys->entries())
      table.rules.push_back(mapped_rule(pattern, node));
  }
  add_groups(root, "without_effect", KeyFate::without_effect, table);
  add_groups(root, "refused", KeyFate::refused, table);
  add_groups(root, "approximated", KeyFate::approximated, table);
  return table;
}

void state_keys(const KeyTable& table, const Node& root, const std::string& prefix, Facts& facts,
                std::vector<KeyAccount>& accounts) {
  const std::size_t first = accounts.size();
  Statement(table, facts, accounts).state(root, "", root.where());
  for (std::size_t i = first; i < accounts.size() && !prefix.empty(); ++i)
    accounts[i].key = prefix + "." + accounts[i].key;
}

}  // namespace lockstep
