// Builds Node trees from yaml-cpp's parser events, and checks the guards of yaml.hpp. The events
// are used instead of YAML::Load(), because they contain the places of keys and values, and because
// a guard can stop in the middle of a hostile file.
#include "core/yaml.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <tuple>

#include "core/file_text.hpp"

namespace lockstep {

// A value of the tree. Nodes are immutable once the tree is built, so trees share subtrees: an
// alias is a second pointer to the anchored value.
struct Node::Impl {
  Kind kind = Kind::null;
  std::shared_ptr<const std::string> file;
  int line = 0, column = 0;
  std::string scalar;
  bool quoted = false;
  std::vector<std::shared_ptr<const Impl>> elements;
  struct Entry {
    std::string key;
    int line = 0, column = 0;
    std::shared_ptr<const Impl> value;
    // File of the key; null = the map's file. The two differ only after Node::with().
    std::shared_ptr<const std::string> file{};
  };
  std::vector<Entry> entries;
  std::size_t weight = 1;  // nodes of the subtree, each alias counted with its whole subtree
  int depth = 1;           // levels of the subtree
};

namespace {

constexpr std::size_t max_nodes = 100'000;
constexpr int max_depth = 64;
// yaml-cpp's parser recurses. A text that could make it recurse deeper than this is not parsed at
// all.
constexpr int max_raw_depth = 400;

// Throws ConfigError about a place in the file.
[[noreturn]] void fail(const std::string& file, int line, int column, std::string message,
                       std::string hint = "") {
  throw ConfigError(Diagnostic{{file, line, column}, "", std::move(message), std::move(hint)});
}

// Whether a byte is a control character other than tab and line end.
bool is_control(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7f;
}

// Bytes of the UTF-8 character at the front of `text`; 0 if no valid character is there. Overlong
// encodings, surrogates and values above U+10FFFF are not valid.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const std::size_t length = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  }
  const bool wrong_second =
      (byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xED && byte(1) > 0x9F) ||
      (byte(0) == 0xF0 && byte(1) < 0x90) || (byte(0) == 0xF4 && byte(1) > 0x8F);
  return wrong_second ? 0 : length;
}

// Throws ConfigError at the first byte that is no part of a UTF-8 character or is not allowed in a
// text.
void refuse_binary(std::string_view text, const std::string& file) {
  int line = 1;
  std::size_t line_start = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0 || is_control(text[i])) {
      fail(file, line, static_cast<int>(i - line_start) + 1,
           fmt::format("byte 0x{:02x} does not belong in a YAML text",
                       static_cast<unsigned char>(text[i])),
           "UTF-8 is expected; is this a binary file?");
    }
    if (text[i] == '\n') {
      ++line;
      line_start = i + 1;
    }
    i += length;
  }
}

// Throws ConfigError if the text may be nested too deeply for the parser. It does not parse: it
// counts the indentation together with leading dashes, and the open brackets, whether in quotes or
// not. Blanks before the first line do not count. TreeBuilder checks the real depth.
void refuse_deep(std::string_view text, const std::string& file) {
  int line = 1, brackets = 0;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view row = text.substr(start, end - start);
    // Counts the characters at the start of a row that may open a level.
    int leading = 0;
    bool at_start = true;
    for (const char c : row) {
      if (at_start && (c == ' ' || c == '-' || c == '?' || c == ':' || c == '\t')) {
        if (line > 1 || c != ' ') ++leading;
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

// Throws ConfigError for an error of yaml-cpp, and replaces messages that mislead: yaml-cpp reports
// an unclosed quote at the end of the file, and a tab in the indentation as another mistake.
[[noreturn]] void refuse(std::string_view text, const std::string& file,
                         const YAML::Exception& error) {
  const int line = error.mark.line + 1;
  int lines = 1, tab_line = 0;
  bool indentation = true;
  for (const char c : text) {
    if (c == '\t' && indentation && lines <= line) tab_line = lines;
    indentation = c == '\n' || (indentation && (c == ' ' || c == '\t'));
    if (c == '\n') ++lines;
  }
  if (error.msg == YAML::ErrorMsg::DOC_IN_SCALAR) {
    fail(file, std::min(line, lines), 1, "not valid YAML: a quoted text is not closed",
         "look for an unmatched \" or '");
  }
  fail(file, std::min(line, lines), line > lines ? 1 : error.mark.column + 1,
       fmt::format("not valid YAML: {}", error.msg),
       tab_line > 0 ? fmt::format("line {} is indented with a tab; use spaces", tab_line) : "");
}

// Receives the parser's events and builds a tree. Open sequences and maps are on a stack; a value
// that is complete is attached to the top of the stack.
class TreeBuilder final : public YAML::EventHandler {
 public:
  // `last_line` is the last line of the user's text; later lines come from parsed(), which appends
  // an end-of-document mark. `foreign` is explained at foreign_.
  TreeBuilder(const std::string& file, int last_line, std::vector<Diagnostic>* foreign)
      : file_(std::make_shared<std::string>(file)), last_line_(last_line), foreign_(foreign) {}

  std::shared_ptr<Node::Impl> root() const { return root_; }
  const Diagnostics& diagnostics() const { return diagnostics_; }

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
    attach(found->second);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    auto node = make(mark, Node::Kind::scalar);
    node->scalar = value;
    node->quoted = tag == "!";  // yaml-cpp's tag of scalars that are not plain
    if (std::any_of(value.begin(), value.end(), is_control)) {
      fail(*file_, node->line, node->column, "holds a control character");
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
  // An open sequence or map. For a map it also has the key whose value comes next.
  struct Frame {
    std::shared_ptr<Node::Impl> node;
    YAML::anchor_t anchor;
    bool has_key = false;
    Node::Impl::Entry entry;
  };

  // A node at the place of `mark`, which counts lines and columns from 0.
  std::shared_ptr<Node::Impl> make(const YAML::Mark& mark, Node::Kind kind) {
    auto node = std::make_shared<Node::Impl>();
    node->kind = kind;
    node->file = file_;
    node->line = std::min(mark.line + 1, last_line_);
    node->column = mark.line + 1 > last_line_ ? 1 : mark.column + 1;
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

  // Attaches a complete value and stores its anchor.
  void place(const std::shared_ptr<Node::Impl>& node, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) anchors_[anchor] = node;
    attach(node);
  }

  // Adds a value to the sequence or map on top of the stack, as an element, a key or a key's value.
  void attach(const std::shared_ptr<Node::Impl>& node) {
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
    // Aliases of aliases grow exponentially ("billion laughs"), so a weight counts the nodes after
    // expansion.
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
      add_entry(parent, std::move(frame.entry));
      frame.has_key = false;
    }
  }

  // Adds an entry to a map. In a foreign text, a duplicate key replaces the earlier value.
  void add_entry(Node::Impl& parent, Node::Impl::Entry entry) {
    if (foreign_ && entry.key == "<<") return merge(parent, *entry.value);
    const auto twin = std::find_if(parent.entries.begin(), parent.entries.end(),
                                   [&](const auto& other) { return other.key == entry.key; });
    if (twin == parent.entries.end()) {
      parent.entries.push_back(std::move(entry));
    } else {
      *twin = std::move(entry);
    }
  }

  // Adds the entries of a merged map (`<<: *base`), or of each map in a list, that `parent` lacks.
  static void merge(Node::Impl& parent, const Node::Impl& merged) {
    for (const auto& element : merged.elements) merge(parent, *element);
    for (const auto& entry : merged.entries) {
      const bool there = std::any_of(parent.entries.begin(), parent.entries.end(),
                                     [&](const auto& other) { return other.key == entry.key; });
      if (!there) parent.entries.push_back(entry);
    }
  }

  // Begins an entry. A duplicate key is an error in a Lockstep file, and a note in a foreign text.
  void set_key(Frame& frame, const Node::Impl& key) {
    if (key.kind != Node::Kind::scalar) {
      fail(*file_, key.line, key.column, "a key must be a plain word");
    }
    if (key.scalar == "<<" && !key.quoted && !foreign_) {
      fail(*file_, key.line, key.column, "merge keys ('<<') are not supported",
           "write the fields out, or use an alias for a whole value");
    }
    for (const auto& entry : frame.node->entries) {
      if (entry.key != key.scalar) continue;
      Diagnostic twice{{*file_, key.line, key.column},
                       "",
                       fmt::format("the key {} stands twice in this map", in_quotes(key.scalar)),
                       fmt::format("the first is in line {}", entry.line)};
      if (foreign_) {
        foreign_->push_back(std::move(twice));
      } else {
        diagnostics_.add(std::move(twice));
      }
      break;
    }
    // The check for duplicate keys above is quadratic, so maps are limited to a size that is still
    // fast.
    if (frame.node->entries.size() >= 2000) {
      fail(*file_, key.line, key.column, "more than 2000 keys in one map");
    }
    frame.entry = {key.scalar, key.line, key.column, nullptr, nullptr};
    frame.has_key = true;
  }

  std::shared_ptr<const std::string> file_;
  int last_line_;
  // Receives notes on a text of another program (parse_foreign_yaml()); null for a Lockstep file.
  std::vector<Diagnostic>* foreign_;
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, std::shared_ptr<Node::Impl>> anchors_;
  std::shared_ptr<Node::Impl> root_;
  Diagnostics diagnostics_;
};

}  // namespace

Node::Node() = default;
Node::Node(std::shared_ptr<const Impl> impl, std::string path)
    : impl_(std::move(impl)), path_(std::move(path)) {}

Node Node::parse_file(const std::string& path) {
  return parse_text(file_text(path, most_of_a_description), path);
}

namespace {

// Parses the only document of a text. `foreign` is explained at TreeBuilder::foreign_.
Node parsed(std::string_view text, const std::string& file_name, std::vector<Diagnostic>* foreign) {
  if (text.size() > most_of_a_description) refuse_too_large(file_name, most_of_a_description);
  refuse_binary(text, file_name);
  refuse_deep(text, file_name);
  const int last_line = 1 + static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  TreeBuilder builder(file_name, last_line, foreign);
  try {
    // At the end of the file yaml-cpp would silently close an open quote; at an end-of-document
    // mark it reports the open quote.
    std::istringstream stream{std::string(text) + "\n...\n"};
    YAML::Parser parser(stream);
    const bool any = parser.HandleNextDocument(builder);
    if (!any || !builder.root() || builder.root()->kind == Node::Kind::null) {
      fail(file_name, 0, 0, "is empty");
    }
    const auto root = builder.root();
    // A second document is an error. It is parsed only to find its first line.
    TreeBuilder second(file_name, last_line, foreign);
    if (parser.HandleNextDocument(second)) {
      fail(file_name, second.root() ? second.root()->line : 0, 1, "holds a second YAML document",
           "put each document in a file of its own");
    }
    builder.diagnostics().throw_if_any();
    return Node(root, "");
  } catch (const YAML::Exception& error) {
    refuse(text, file_name, error);
  }
}

}  // namespace

Node Node::parse_text(std::string_view text, const std::string& file_name) {
  return parsed(text, file_name, nullptr);
}

Node parse_foreign_yaml(std::string_view text, const std::string& file_name,
                        std::vector<Diagnostic>& notes) {
  return parsed(text, file_name, &notes);
}

Node Node::plain(std::string scalar, const Location& where) {
  auto node = std::make_shared<Impl>();
  node->kind = Kind::scalar;
  node->file = std::make_shared<std::string>(where.file);
  node->line = where.line;
  node->column = where.column;
  node->scalar = std::move(scalar);
  return Node(node, "");
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
      if (entry.key == key) {
        return {entry.file ? *entry.file : *impl_->file, entry.line, entry.column};
      }
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

Node Node::empty_map() const {
  auto map = std::make_shared<Impl>();
  if (impl_) {
    map->file = impl_->file;
    map->line = impl_->line;
    map->column = impl_->column;
  } else {
    map->file = std::make_shared<std::string>();
  }
  map->kind = Kind::map;
  return Node(map, path_);
}

Node Node::with(const std::string& key, const Node& value, const Location& key_where) const {
  auto map = std::make_shared<Impl>(*impl_);
  Impl::Entry entry{key, key_where.line, key_where.column, value.impl_,
                    std::make_shared<std::string>(key_where.file)};
  const auto place = std::find_if(map->entries.begin(), map->entries.end(),
                                  [&](const Impl::Entry& other) { return other.key == key; });
  if (place != map->entries.end()) {
    *place = std::move(entry);
  } else {
    map->entries.push_back(std::move(entry));
  }
  return Node(map, path_);
}

Node Node::without(std::string_view key) const {
  auto map = std::make_shared<Impl>(*impl_);
  std::erase_if(map->entries, [&](const Impl::Entry& entry) { return entry.key == key; });
  return Node(map, path_);
}

Node Node::with_elements(const std::vector<Node>& elements) const {
  auto sequence = std::make_shared<Impl>(*impl_);
  sequence->kind = Kind::sequence;
  sequence->scalar.clear();
  sequence->entries.clear();
  sequence->elements.clear();
  for (const Node& element : elements) sequence->elements.push_back(element.impl_);
  return Node(sequence, path_);
}

void Diagnostics::throw_if_any() const {
  if (list_.empty()) return;
  std::vector<Diagnostic> sorted = list_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::tie(a.where.file, a.where.line, a.where.column) <
           std::tie(b.where.file, b.where.line, b.where.column);
  });
  throw ConfigError(std::move(sorted));
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
  return in_quotes(node.scalar());
}

}  // namespace lockstep

namespace lockstep::fields {

// A scalar's text as YAML: plain if it consists of letters, digits and a few marks that read back
// as the same text, and double-quoted otherwise. A text that would read as null is quoted.
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
