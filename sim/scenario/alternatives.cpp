// Finds the fields that list values, and makes one scenario of each combination (the Cartesian
// product of the lists). Each combination is put into a copy of the YAML tree, which the ordinary
// reader then reads, so that alternatives pass the same checks as single values.
#include "scenario/alternatives.hpp"

#include <fmt/format.h>

#include <set>

#include "core/describe.hpp"
#include "scenario/scenario_fields.hpp"

namespace lockstep {

namespace {

// Blocks of the scenario with fields that may list alternatives. The visitors below descend only
// into these blocks.
template <class T>
constexpr bool has_lists =
    std::is_same_v<T, BatchSpec> || std::is_same_v<T, OptimizerSpec> ||
    std::is_same_v<T, ConvergenceSpec> || std::is_same_v<T, ParallelOptions> ||
    std::is_same_v<T, TensorOptions> || std::is_same_v<T, ContextOptions> ||
    std::is_same_v<T, ExpertOptions> || std::is_same_v<T, PipelineOptions>;

// Finds a scenario's value of a dotted field, as text. Visits all fields by their declarations;
// `prefix_` is the path of the present block.
class ValueAt : public FieldVisitor<ValueAt> {
 public:
  explicit ValueAt(std::string field) : field_(std::move(field)) {}

  template <class T>
  void visit(const FieldSpec& spec, T& value) {
    const std::string name = prefix_ + spec.name;
    if constexpr (std::is_same_v<T, std::optional<ConvergenceSpec>>) {
      if (value) visit(spec, *value);
    } else if constexpr (has_lists<T>) {
      // A file may write a block as the value of its first field (`parallel.tensor: 4` for
      // `parallel.tensor.size: 4`). The search then continues at that first field.
      if (spec.single && name == field_) {
        fields::FirstField of;
        describe(of, value);
        field_ += "." + std::string(of.first.name);
      }
      const std::string outer = std::exchange(prefix_, name + ".");
      describe(*this, value);
      prefix_ = outer;
    } else if constexpr (std::is_same_v<T, double>) {
      if (name == field_) text = fmt::format("{}", value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (name == field_) text = value;
    } else if constexpr (std::is_enum_v<T>) {
      if (name == field_) text = enum_name(value);
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      if (name == field_ && value > 0) text = fmt::format("{}", value);
    }
  }
  template <class Variant>
  void visit_alternative(const FieldSpec&, Variant&) {}

  std::string text;

 private:
  std::string field_, prefix_;
};

// Collects the fields that may list alternatives, each as the keys that lead to it.
class ListingFields : public FieldVisitor<ListingFields> {
 public:
  template <class T>
  void visit(const FieldSpec& spec, T& value) {
    path_.push_back(spec.name);
    if (spec.several) paths.push_back(path_);
    if constexpr (has_lists<T>) describe(*this, value);
    if constexpr (std::is_same_v<T, std::optional<ConvergenceSpec>>) {
      ConvergenceSpec convergence;
      describe(*this, convergence);
    }
    path_.pop_back();
  }
  template <class Variant>
  void visit_alternative(const FieldSpec&, Variant&) {}

  std::vector<std::vector<std::string>> paths;

 private:
  std::vector<std::string> path_;
};

// A field of the file that lists values.
struct List {
  std::vector<std::string> keys;
  std::vector<Node> values;
};

// Reports an empty list, a list that is too long, values that are no scalars, and repetitions.
void check_list(const Node& node, Diagnostics& diagnostics) {
  if (node.elements().empty()) {
    diagnostics.add(node.error("lists no alternative", "give one value, or several"));
  }
  if (node.elements().size() > most_alternatives) {
    diagnostics.add(node.error(fmt::format("lists {} alternatives", node.elements().size()),
                               fmt::format("at most {}", most_alternatives)));
  }
  std::set<std::string> known;
  for (const Node& value : node.elements()) {
    if (value.kind() != Node::Kind::scalar) {
      diagnostics.add(value.error(fmt::format("must be a value, not {}", kind_text(value))));
    } else if (!known.insert(value.scalar()).second) {
      diagnostics.add(value.error(fmt::format("{} is listed twice", kind_text(value))));
    }
  }
}

// All lists of the file, in the order of the declarations. Throws ConfigError with every error of
// every list.
std::vector<List> lists_of(const Node& root) {
  ListingFields fields;
  Scenario none;
  describe(fields, none);
  std::vector<List> lists;
  Diagnostics diagnostics;
  for (const auto& keys : fields.paths) {
    std::optional<Node> node = root;
    for (const std::string& key : keys) node = node ? node->find(key) : std::nullopt;
    if (!node || node->kind() != Node::Kind::sequence) continue;
    check_list(*node, diagnostics);
    lists.push_back({keys, node->elements()});
  }
  if (!lists.empty()) {
    for (const char* rows : {"anchor", "measured"}) {
      const auto node = root.find(rows);
      if (node)
        diagnostics.add(node->error("belongs to one alternative, and the file lists several"));
    }
  }
  diagnostics.throw_if_any();
  return lists;
}

// A copy of `node` with `value` at the path keys[at], keys[at + 1], ...
Node put(const Node& node, const std::vector<std::string>& keys, std::size_t at,
         const Node& value) {
  if (at == keys.size()) return value;
  const Node inner = node.find(keys[at]).value_or(Node());
  return node.with(keys[at], put(inner, keys, at + 1, value), node.key_location(keys[at]));
}

}  // namespace

std::vector<Alternative> read_alternatives_node(const Node& root, const std::string& file) {
  // If the root is no map, the reader reports it below.
  const std::vector<List> lists =
      root.kind() == Node::Kind::map ? lists_of(root) : std::vector<List>{};
  std::size_t count = 1;
  // Refuses too large a product before anything is built.
  for (const List& list : lists) {
    count *= list.values.size();
    if (count > most_alternatives) {
      throw ConfigError(root.error(fmt::format("lists {} alternatives and more", count),
                                   fmt::format("at most {}", most_alternatives)));
    }
  }
  std::vector<Alternative> alternatives;
  for (std::size_t number = 0; number < count; ++number) {
    Alternative alternative;
    Node node = root;
    // `number` is split into one index for each list, like digits of which the first list has the
    // most significant. `block` is the number of combinations of all later lists.
    std::size_t rest = number, block = count;
    for (const List& list : lists) {
      block /= list.values.size();
      const Node& value = list.values[rest / block];
      rest %= block;
      node = put(node, list.keys, 0, value);
      std::string name = list.keys.front();
      for (std::size_t i = 1; i < list.keys.size(); ++i) name += "." + list.keys[i];
      alternative.chosen.emplace_back(std::move(name), value.scalar());
    }
    alternative.scenario = read_scenario_node(node, file);
    alternatives.push_back(std::move(alternative));
  }
  return alternatives;
}

std::string value_of(const Scenario& scenario, const std::string& field) {
  ValueAt at(field);
  Scenario copy = scenario;
  describe(at, copy);
  return at.text;
}

std::vector<Alternative> read_alternatives_text(std::string_view text,
                                                const std::string& file_name) {
  return read_alternatives_node(Node::parse_text(text, file_name), file_name);
}

}  // namespace lockstep
