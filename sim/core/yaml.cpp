// Builds Node trees from yaml-cpp's parser events.
#include "core/yaml.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace lockstep {

struct Node::Impl {
  Kind kind = Kind::null;
  std::shared_ptr<const std::string> file;
  int line = 0, column = 0;
  std::string scalar;
  bool quoted = false;
  std::vector<std::shared_ptr<Impl>> elements;
  struct Entry {
    std::string key;
    int line = 0, column = 0;
    std::shared_ptr<Impl> value;
  };
  std::vector<Entry> entries;
  std::size_t weight = 1;  // nodes of the subtree, aliases expanded
  int depth = 1;
};

namespace {

constexpr std::size_t max_bytes = 4 * 1024 * 1024;
constexpr std::size_t max_nodes = 100'000;
constexpr int max_depth = 64;
// yaml-cpp's parser recurses; text that could make it recurse deeper than this is refused unread.
constexpr int max_raw_depth = 400;

[[noreturn]] void fail(const std::string& file, int line, int column, std::string message,
                       std::string hint = "") {
  throw ConfigError(Diagnostic{{file, line, column}, "", std::move(message), std::move(hint)});
}

void refuse_binary(std::string_view text, const std::string& file) {
  int line = 1, column = 1;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 && c != '\n' && c != '\r' && c != '\t') {
      fail(file, line, column, fmt::format("byte 0x{:02x} does not belong in a YAML text", byte),
           "is this a binary file?");
    }
    ++column;
    if (c == '\n') {
      ++line;
      column = 1;
    }
  }
}

// An upper bound of the nesting, without parsing: indentation, leading dashes and open brackets.
void refuse_deep(std::string_view text, const std::string& file) {
  int line = 1, brackets = 0;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view row = text.substr(start, end - start);
    int leading = 0;
    bool at_start = true;
    for (const char c : row) {
      if (at_start && (c == ' ' || c == '-' || c == '?' || c == ':' || c == '\t')) {
        ++leading;
        continue;
      }
      at_start = false;
      if (c == '[' || c == '{') ++brackets;
      if ((c == ']' || c == '}') && brackets > 0) --brackets;
    }
    if (leading > max_raw_depth || brackets > max_raw_depth) {
      fail(file, line, 1, "nested too deeply", fmt::format("at most {} levels", max_depth));
    }
    ++line;
    start = end + 1;
  }
}

class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& file) : file_(std::make_shared<std::string>(file)) {}

  std::shared_ptr<Node::Impl> root() const { return root_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    place(make(mark, Node::Kind::null), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      fail(*file_, mark.line + 1, mark.column + 1, "an alias inside its own anchor");
    }
    attach(found->second, mark);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    auto node = make(mark, Node::Kind::scalar);
    node->scalar = value;
    node->quoted = tag == "!";
    if (!node->quoted && (value.empty() || value == "~" || value == "null")) {
      node->kind = Node::Kind::null;
    }
    place(node, anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(make(mark, Node::Kind::sequence), anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(make(mark, Node::Kind::map), anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    std::shared_ptr<Node::Impl> node;
    YAML::anchor_t anchor;
    bool has_key = false;
    Node::Impl::Entry entry;
  };

  std::shared_ptr<Node::Impl> make(const YAML::Mark& mark, Node::Kind kind) {
    auto node = std::make_shared<Node::Impl>();
    node->kind = kind;
    node->file = file_;
    node->line = mark.line + 1;
    node->column = mark.column + 1;
    return node;
  }

  void open(std::shared_ptr<Node::Impl> node, YAML::anchor_t anchor) {
    if (stack_.size() >= static_cast<std::size_t>(max_depth)) {
      fail(*file_, node->line, node->column, "nested too deeply",
           fmt::format("at most {} levels", max_depth));
    }
    if (!stack_.empty() && stack_.back().node->kind == Node::Kind::map && !stack_.back().has_key) {
      fail(*file_, node->line, node->column, "a key must be a plain word");
    }
    stack_.push_back({std::move(node), anchor, false, {}});
  }

  void close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    place(frame.node, frame.anchor);
  }

  void place(const std::shared_ptr<Node::Impl>& node, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) anchors_[anchor] = node;
    attach(node, {});
  }

  void attach(const std::shared_ptr<Node::Impl>& node, const YAML::Mark&) {
    if (stack_.empty()) {
      root_ = node;
      return;
    }
    Frame& frame = stack_.back();
    Node::Impl& parent = *frame.node;
    if (parent.kind == Node::Kind::map && !frame.has_key) {
      set_key(frame, *node);
      return;
    }
    parent.weight += node->weight;
    parent.depth = std::max(parent.depth, node->depth + 1);
    if (parent.weight > max_nodes) {
      fail(*file_, node->line, node->column, "expands to too many values",
           fmt::format("at most {} after aliases are expanded", max_nodes));
    }
    if (parent.depth > max_depth) {
      fail(*file_, node->line, node->column, "nested too deeply",
           fmt::format("at most {} levels after aliases are expanded", max_depth));
    }
    if (parent.kind == Node::Kind::sequence) {
      parent.elements.push_back(node);
    } else {
      frame.entry.value = node;
      parent.entries.push_back(std::move(frame.entry));
      frame.has_key = false;
    }
  }

  void set_key(Frame& frame, const Node::Impl& key) {
    if (key.kind == Node::Kind::sequence || key.kind == Node::Kind::map) {
      fail(*file_, key.line, key.column, "a key must be a plain word");
    }
    if (key.scalar == "<<" && !key.quoted) {
      fail(*file_, key.line, key.column, "merge keys ('<<') are not supported",
           "write the fields out, or use an alias for a whole value");
    }
    for (const auto& entry : frame.node->entries) {
      if (entry.key == key.scalar) {
        fail(*file_, key.line, key.column,
             fmt::format("the key '{}' stands twice in this map", key.scalar.substr(0, 60)),
             fmt::format("the first is in line {}", entry.line));
      }
    }
    // The duplicate check above is quadratic: keep maps to a size where that is nothing.
    if (frame.node->entries.size() >= 2000) {
      fail(*file_, key.line, key.column, "more than 2000 keys in one map");
    }
    frame.entry = {key.scalar, key.line, key.column, nullptr};
    frame.has_key = true;
  }

  std::shared_ptr<const std::string> file_;
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, std::shared_ptr<Node::Impl>> anchors_;
  std::shared_ptr<Node::Impl> root_;
};

}  // namespace

Node::Node() = default;
Node::Node(std::shared_ptr<const Impl> impl, std::string path)
    : impl_(std::move(impl)), path_(std::move(path)) {}

Node Node::parse_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    fail(path, 0, 0, "is a folder, not a file");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path, 0, 0, fmt::format("cannot be read: {}", std::strerror(errno)));
  std::string text;
  text.resize(max_bytes + 1);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_text(text, path);
}

Node Node::parse_text(std::string_view text, const std::string& file_name) {
  if (text.size() > max_bytes) fail(file_name, 0, 0, "larger than 4 MiB");
  refuse_binary(text, file_name);
  refuse_deep(text, file_name);
  TreeBuilder builder(file_name);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    const bool any = parser.HandleNextDocument(builder);
    if (!any || !builder.root() || builder.root()->kind == Kind::null) {
      fail(file_name, 0, 0, "is empty");
    }
    const auto root = builder.root();
    TreeBuilder second(file_name);
    if (parser.HandleNextDocument(second)) {
      fail(file_name, second.root() ? second.root()->line : 0, 1, "holds a second YAML document",
           "put each document in a file of its own");
    }
    return Node(root, "");
  } catch (const YAML::Exception& error) {
    fail(file_name, error.mark.line + 1, error.mark.column + 1,
         fmt::format("not valid YAML: {}", error.msg));
  }
}

Node::Kind Node::kind() const {
  return impl_ ? impl_->kind : Kind::null;
}

const std::string& Node::scalar() const {
  static const std::string empty;
  return impl_ ? impl_->scalar : empty;
}

bool Node::quoted() const {
  return impl_ && impl_->quoted;
}

std::vector<Node> Node::elements() const {
  std::vector<Node> result;
  if (!impl_) return result;
  for (std::size_t i = 0; i < impl_->elements.size(); ++i) {
    result.emplace_back(impl_->elements[i], fmt::format("{}[{}]", path_, i));
  }
  return result;
}

std::vector<std::pair<std::string, Node>> Node::entries() const {
  std::vector<std::pair<std::string, Node>> result;
  if (!impl_) return result;
  for (const auto& entry : impl_->entries) {
    result.emplace_back(entry.key,
                        Node(entry.value, path_.empty() ? entry.key : path_ + "." + entry.key));
  }
  return result;
}

std::optional<Node> Node::find(std::string_view key) const {
  if (!impl_) return std::nullopt;
  for (const auto& entry : impl_->entries) {
    if (entry.key == key) {
      return Node(entry.value, path_.empty() ? entry.key : path_ + "." + entry.key);
    }
  }
  return std::nullopt;
}

Location Node::key_location(std::string_view key) const {
  if (impl_) {
    for (const auto& entry : impl_->entries) {
      if (entry.key == key) return {*impl_->file, entry.line, entry.column};
    }
  }
  return where();
}

Location Node::where() const {
  if (!impl_) return {};
  return {*impl_->file, impl_->line, impl_->column};
}

Diagnostic Node::error(std::string message, std::string hint) const {
  return {where(), path_, std::move(message), std::move(hint)};
}

std::string kind_text(const Node& node) {
  switch (node.kind()) {
    case Node::Kind::null:
      return "nothing";
    case Node::Kind::sequence:
      return "a list";
    case Node::Kind::map:
      return "a map";
    case Node::Kind::scalar:
      break;
  }
  const std::string& text = node.scalar();
  return fmt::format("'{}{}'", text.substr(0, 60), text.size() > 60 ? "..." : "");
}

}  // namespace lockstep

namespace lockstep::fields {

// Plain where that is safe to read back as the same text, double-quoted otherwise.
std::string yaml_text(const std::string& text) {
  const auto plain_character = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::strchr("_./+()%^", c) != nullptr || (static_cast<unsigned char>(c) & 0x80U) != 0;
  };
  bool plain = !text.empty() && text != "null" && text != "~" &&
               (std::isalnum(static_cast<unsigned char>(text[0])) != 0 || text[0] == '/' ||
                text[0] == '.' || text[0] == '_');
  for (std::size_t i = 0; i < text.size() && plain; ++i) {
    const bool inner = i > 0 && i + 1 < text.size();
    plain = plain_character(text[i]) || (inner && (text[i] == ' ' || text[i] == '-'));
  }
  if (plain) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (c == '\r') {
      quoted += "\\r";
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace lockstep::fields
