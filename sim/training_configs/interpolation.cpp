// Replaces OmegaConf's `${a.b}` by the value at the path a.b of the same file (Hydra, LLM Foundry
// and Lightning use it). Only values that consist of a single interpolation are replaced. Resolvers
// such as `${env:X}` depend on the running program and stay.
#include <optional>

namespace lockstep {
namespace {

// The value at a dotted path below a map.
std::optional<Node> at(const Node& from, std::string_view path) {
  std::optional<Node> here = from;
  while (!path.empty() && here) {
    const std::size_t dot = path.find('.');
    here = here->find(path.substr(0, dot));
    path = dot == std::string_view::npos ? "" : path.substr(dot + 1);
  }
  return here;
}

class Resolution {
 public:
  explicit Resolution(const Node& root) : root_(root) {}

  // The node with all its interpolations replaced. `owner` is the map that contains the node, for
  // relative paths. A value may lead to another interpolation; after eight such steps (a circle,
  // for example) the interpolation stays.
  Node of(const Node& node, const Node& owner, int depth) const {
    if (node.kind() == Node::Kind::scalar) return scalar(node, owner, depth);
    if (node.kind() == Node::Kind::sequence) {
      std::vector<Node> elements;
      for (const Node& element : node.elements()) elements.push_back(of(element, owner, depth));
      return node.with_elements(elements);
    }
    Node map = node;
    for (const auto& [key, value] : node.entries())
      map = map.with(key, of(value, node, depth), node.key_location(key));
    return map;
  }

 private:
  // A text with a `${...}` among other words is usually the name of a run or a folder, and stays.
  Node scalar(const Node& node, const Node& owner, int depth) const {
    const std::string& text = node.scalar();
    const bool whole = text.starts_with("${") && text.ends_with('}') &&
                       text.find('}') == text.size() - 1 && text.find(':') == std::string::npos;
    if (!whole || depth > 8) return node;
    const std::string path = text.substr(2, text.size() - 3);
    const auto target = path.starts_with('.') ? at(owner, path.substr(1)) : at(root_, path);
    if (!target || target->kind() == Node::Kind::map) return node;
    return of(*target, root_, depth + 1);
  }

  const Node& root_;
};

}  // namespace

Node resolved(const Node& root) {
  return Resolution(root).of(root, root, 0);
}

}  // namespace lockstep
