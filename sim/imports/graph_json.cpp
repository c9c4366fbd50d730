// Graphs of torch.export as lockstep.graph (sim/python/lockstep/graph.py) writes them. Arguments have
// the names of PyTorch's operator schemas.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "imports/graph.hpp"
#include "imports/trace_json.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* format_name = "lockstep-graph-1";

// Operators without "aten::" and overload; those called like the canonical one are not listed.
const std::map<std::string, std::string>& names_of_torch() {
  static const std::map<std::string, std::string> names{
      {"conv2d", "conv"},
      {"addmm", "gemm"},
      {"mm", "matmul"},
      {"bmm", "matmul"},
      {"hardtanh", "clip"},
      {"clamp", "clip"},
      {"bernoulli", "noise"},
      {"max_pool2d", "max_pool"},
      {"avg_pool2d", "avg_pool"},
      {"adaptive_avg_pool2d", "adaptive_avg_pool"},
      {"reshape", "view"},
      {"_unsafe_view", "view"},
      {"flatten", "view"},
      {"unflatten", "view"},
      {"squeeze", "view"},
      {"unsqueeze", "view"},
      {"expand", "view"},
      {"t", "transpose"},
      {"contiguous", "same"},
      {"clone", "same"},
      {"to", "same"},
      {"_to_copy", "same"},
      {"alias", "same"},
      {"detach", "same"},
      {"slice", "part"},
      {"select", "part"},
      {"getitem", "part"},
      {"split", "parts"},
      {"split_with_sizes", "parts"},
      {"chunk", "parts"},
      {"unbind", "parts"},
      {"cat", "concat"},
      {"scaled_dot_product_attention", "attention"},
      {"_softmax", "softmax"},
      {"where", "mask"},
      {"masked_fill", "mask"},
      {"wrap_with_set_grad_enabled", "constant"},  // torch.no_grad(): nothing to train
  };
  return names;
}

const std::set<std::string>& same_names() {
  static const std::set<std::string> names{
      "linear",    "matmul",    "batch_norm",  "layer_norm", "group_norm", "rms_norm",
      "relu",      "relu6",     "leaky_relu",  "sigmoid",    "tanh",       "gelu",
      "silu",      "hardswish", "hardsigmoid", "dropout",    "mean",       "permute",
      "transpose", "add",       "sub",         "mul",        "div",        "pow",
      "sqrt",      "rsqrt",     "erf",         "neg",        "embedding",  "softmax",
      "view",      "rsub"};
  return names;
}

// PyTorch's names of arguments that the canonical operators call otherwise.
std::string canonical_argument(const std::string& name) {
  if (name == "kernel_size") return "kernel";
  if (name == "output_size") return "out";
  if (name == "min_val") return "min";
  if (name == "max_val") return "max";
  if (name == "dropout_p") return "p";
  return name;
}

class GraphReader {
 public:
  GraphReader(const std::string& file, const std::string& text) : text_(text) {
    graph_.file = file;
  }

  Graph read() {
    const Json document = parse();
    try {
      if (!document.is_object() || document.value("format", "") != format_name)
        throw file_error(graph_.file, "format", fmt::format("missing, or not {}", format_name),
                         "python -m lockstep.graph writes such files");
      graph_.title = document.at("title").get<std::string>();
      for (const auto& [name, value] : document.at("values").items()) read_value(name, value);
      for (const Json& node : document.at("nodes")) read_node(node);
      for (const auto& [name, canonical] : names_of_torch()) graph_.known.push_back(name);
      graph_.known.insert(graph_.known.end(), same_names().begin(), same_names().end());
      std::sort(graph_.known.begin(), graph_.known.end());
      graph_.outputs = document.at("outputs").get<std::vector<std::string>>();
    } catch (const Json::exception& error) {
      throw file_error(graph_.file, "",
                       fmt::format("no graph of lockstep.graph: {}", error.what()));
    }
    return std::move(graph_);
  }

 private:
  Json parse() const {
    try {
      return Json::parse(text_);
    } catch (const Json::parse_error& error) {
      throw json_error(graph_.file, text_, error.byte);
    }
  }

  void read_value(const std::string& name, const Json& json) {
    GraphValue value;
    value.shape = json.at("shape").get<std::vector<std::int64_t>>();
    if (json.contains("parameter")) {
      value.kind = GraphValue::Kind::parameter;
      value.name = json.at("parameter").get<std::string>();
    } else if (json.contains("input")) {
      value.kind = GraphValue::Kind::input;
      value.tokens = json.at("tokens").get<bool>();
    }
    graph_.values.emplace(name, std::move(value));
  }

  // Nodes stand on lines of their own.
  Place place_of(const std::string& name) {
    const std::size_t at = text_.find(fmt::format("{{\"name\": \"{}\"", name), searched_);
    if (at == std::string::npos) return {graph_.file, line_, 1, name};
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(searched_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    searched_ = at;
    return {graph_.file, line_, 1, name};
  }

  void read_node(const Json& json) {
    GraphNode node;
    node.name = json.at("name").get<std::string>();
    node.written = json.at("op").get<std::string>();
    node.module = json.at("module").get<std::string>();
    node.block = json.at("block").get<std::string>();
    node.outputs = {node.name};
    node.place = place_of(node.name);
    const Json& shape = json.at("shape");
    if (std::all_of(shape.begin(), shape.end(), [](const Json& one) { return one.is_number(); }))
      node.shape = shape.get<std::vector<std::int64_t>>();
    set_operator(node);
    if (node.written.starts_with("aten._assert_")) return;
    for (const auto& [name, value] : json.at("arguments").items())
      read_argument(node, canonical_argument(name), value);
    const bool compares =
        node.written.starts_with("aten.le.") || node.written.starts_with("aten.lt.") ||
        node.written.starts_with("aten.ge.") || node.written.starts_with("aten.gt.");
    node.compares = (compares && node.inputs.size() == 2) || node.written.starts_with("aten.tri");
    graph_.nodes.push_back(std::move(node));
  }

  // "aten.relu_.default" is relu, in place.
  static void set_operator(GraphNode& node) {
    std::string name = node.written;
    if (name.starts_with("aten.")) name = name.substr(5);
    name = name.substr(0, name.find('.'));
    if (name.size() > 1 && name.back() == '_' && !name.ends_with("__")) {
      name.pop_back();
      node.numbers["inplace"] = {1};
    }
    if (const auto known = names_of_torch().find(name); known != names_of_torch().end())
      node.op = known->second;
    else if (same_names().contains(name))
      node.op = name;
  }

  void read_argument(GraphNode& node, const std::string& name, const Json& json) {
    const auto value_of = [](const Json& one) -> std::string {
      return one.is_object() ? one.at("value").get<std::string>() : "";
    };
    const bool optional_tensor = name == "weight" || name == "bias" || name == "attn_mask";
    if (json.is_object() || (json.is_null() && optional_tensor)) {
      node.inputs.push_back(value_of(json));
    } else if (json.is_array() && !json.empty() && json[0].is_object()) {
      for (const Json& one : json) node.inputs.push_back(value_of(one));
    } else if (json.is_array()) {
      std::vector<double> numbers;
      for (const Json& one : json)
        numbers.push_back(one.is_number() ? one.get<double>() : 0);  // symbolic sizes
      node.numbers[name] = std::move(numbers);
    } else if (json.is_number()) {
      node.numbers[name] = {json.get<double>()};
    } else if (json.is_boolean()) {
      node.numbers[name] = {json.get<bool>() ? 1.0 : 0.0};
    }
  }

  const std::string& text_;
  Graph graph_;
  std::size_t searched_ = 0;
  int line_ = 1;
};

}  // namespace

double GraphNode::number(const std::string& key, double fallback, std::size_t index) const {
  const auto found = numbers.find(key);
  if (found == numbers.end() || found->second.empty()) return fallback;
  return found->second[std::min(index, found->second.size() - 1)];
}

Graph read_module_graph(const std::string& file, const std::string& text) {
  return GraphReader(file, text).read();
}

}  // namespace lockstep
