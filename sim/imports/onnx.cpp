// ONNX models: the few fields of onnx.proto that tell a network's layers. Numbers of fields are those
// of onnx.proto; names of operators and attributes those of the default domain.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "core/protobuf_wire.hpp"
#include "imports/graph.hpp"

namespace lockstep {
namespace {

struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t type = 0;     // 1 float, 6 int32, 7 int64, 9 bool, 10 half, 11 double, 16 bfloat16
  std::vector<double> data;  // where there are few numbers, and the file has them
  bool is_float() const { return type == 1 || type == 10 || type == 11 || type == 16; }
  std::int64_t count() const {
    std::int64_t all = 1;
    for (const std::int64_t size : shape) all *= size;
    return all;
  }
};

struct Attribute {
  std::vector<double> numbers;
  std::optional<Tensor> tensor;
  std::string text;
};

// Operators by their canonical names. Others may still stand where the input has no part.
const std::map<std::string, std::string>& names_of_onnx() {
  static const std::map<std::string, std::string> names{
      {"Conv", "conv"},
      {"Gemm", "gemm"},
      {"MatMul", "matmul"},
      {"BatchNormalization", "batch_norm"},
      {"LayerNormalization", "layer_norm"},
      {"GroupNormalization", "group_norm"},
      {"RMSNormalization", "rms_norm"},
      {"SimplifiedLayerNormalization", "rms_norm"},
      {"Relu", "relu"},
      {"LeakyRelu", "leaky_relu"},
      {"Gelu", "gelu"},
      {"HardSwish", "hardswish"},
      {"HardSigmoid", "hardsigmoid"},
      {"Clip", "clip"},
      {"Sigmoid", "sigmoid"},
      {"Tanh", "tanh"},
      {"Erf", "erf"},
      {"Pow", "pow"},
      {"Sqrt", "sqrt"},
      {"Reciprocal", "reciprocal"},
      {"Neg", "neg"},
      {"Add", "add"},
      {"Sub", "sub"},
      {"Mul", "mul"},
      {"Div", "div"},
      {"Dropout", "dropout"},
      {"MaxPool", "max_pool"},
      {"AveragePool", "avg_pool"},
      {"GlobalAveragePool", "adaptive_avg_pool"},
      {"ReduceMean", "mean"},
      {"Flatten", "view"},
      {"Reshape", "view"},
      {"Squeeze", "view"},
      {"Unsqueeze", "view"},
      {"Expand", "view"},
      {"Transpose", "permute"},
      {"Identity", "same"},
      {"Cast", "same"},
      {"CastLike", "same"},
      {"Slice", "part"},
      {"Gather", "part"},
      {"Split", "parts"},
      {"Concat", "concat"},
      {"Softmax", "softmax"},
      {"Where", "mask"},
      {"Attention", "attention"},
      {"Shape", "constant"},
      {"Size", "constant"},
  };
  return names;
}

// What stands between quotes in a Python list of texts.
std::vector<std::string> quoted_texts(const std::string& list) {
  std::vector<std::string> texts;
  for (std::size_t at = list.find('\''); at != std::string::npos; at = list.find('\'', at)) {
    const std::size_t end = list.find('\'', at + 1);
    if (end == std::string::npos) break;
    texts.push_back(list.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return texts;
}

// "/layer1/layer1.0/conv1/Conv" as PyTorch's first exporter names nodes is run by layer1.0.conv1.
std::string module_in_name(const std::string& name) {
  if (!name.starts_with("/")) return "";
  std::string path;
  std::size_t from = 1;
  for (std::size_t slash = name.find('/', 1); slash != std::string::npos;
       slash = name.find('/', from)) {
    const std::string scope = name.substr(from, slash - from);
    // A container's children bear its name: layer1, layer1.0.
    const std::size_t dot = path.rfind('.');
    const std::string last = path.substr(dot == std::string::npos ? 0 : dot + 1);
    if (!path.empty() && scope.starts_with(last + "."))
      path += scope.substr(last.size());
    else
      path += (path.empty() ? "" : ".") + scope;
    from = slash + 1;
  }
  return path;
}

class OnnxReader {
 public:
  OnnxReader(const std::string& file, const std::string& bytes) : file_(file), bytes_(bytes) {
    graph_.file = file;
  }

  Graph read() {
    WireMessage model(file_, bytes_, bytes_);
    bool has_graph = false;
    for (WireField field; model.next(field);) {
      if (field.number == 7 && field.is_bytes) {
        read_graph(model.inside(field));
        has_graph = true;
      }
    }
    if (!has_graph)
      throw file_error(file_, "graph", "missing: this is no ONNX model",
                       "read are ONNX, what `python -m lockstep.graph` writes, and config.json of "
                       "Hugging Face");
    for (GraphNode& node : graph_.nodes) {
      pass_constants(node);
      finish(node);
    }
    set_blocks();
    for (const auto& [name, canonical] : names_of_onnx()) graph_.known.push_back(name);
    const std::string name = file_.substr(file_.rfind('/') + 1);
    graph_.title = name.substr(0, name.find('.'));  // graphs are mostly called "main_graph"
    return std::move(graph_);
  }

 private:
  using Attributes = std::map<std::string, Attribute>;

  void read_graph(WireMessage graph) {
    std::vector<std::string> inputs;
    for (WireField field; graph.next(field);) {
      if (field.number == 1) read_node(graph.inside(field));
      if (field.number == 5) add_initializer(read_tensor(graph.inside(field)));
      if (field.number == 11) inputs.push_back(read_value_info(graph.inside(field)));
      if (field.number == 12) graph_.outputs.push_back(read_value_info(graph.inside(field)));
      if (field.number == 13) read_value_info(graph.inside(field));
    }
    // Before IR version 4 initializers are inputs too.
    for (const std::string& name : inputs) {
      if (graph_.values.contains(name)) continue;
      GraphValue value;
      value.kind = GraphValue::Kind::input;
      value.shape = shapes_[name];
      value.tokens = integers_.contains(name);
      graph_.values.emplace(name, std::move(value));
    }
  }

  // Of few numbers the data is kept: shapes, indices, limits.
  void add_initializer(const Tensor& tensor) {
    GraphValue value;
    value.shape = tensor.shape;
    if (tensor.is_float() && tensor.count() > 1) {
      value.kind = GraphValue::Kind::parameter;
      value.name = tensor.name;
    }
    constants_[tensor.name] = tensor;
    graph_.values.emplace(tensor.name, std::move(value));
  }

  static Tensor read_tensor(WireMessage message) {
    Tensor tensor;
    std::string_view raw;
    std::vector<std::int64_t> integers;
    for (WireField field; message.next(field);) {
      if (field.number == 1) message.append(field, tensor.shape);
      if (field.number == 2) tensor.type = field.integer();
      if (field.number == 4 && field.is_bytes) raw = field.bytes;
      if (field.number == 4 && !field.is_bytes) tensor.data.push_back(field.from_float());
      if (field.number == 5 || field.number == 7) message.append(field, integers);
      if (field.number == 8) tensor.name = field.text();
      if (field.number == 9) raw = field.bytes;
    }
    constexpr std::int64_t few = 64;
    if (tensor.count() > few) return tensor;
    for (const std::int64_t number : integers) tensor.data.push_back(static_cast<double>(number));
    const std::size_t size = tensor.type == 1 || tensor.type == 6    ? 4
                             : tensor.type == 7 || tensor.type == 11 ? 8
                                                                     : 0;
    for (std::size_t at = 0; size > 0 && at + size <= raw.size(); at += size) {
      WireField number;
      for (std::size_t i = 0; i < size; ++i)
        number.value |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(raw[at + i]))
                        << (8 * i);
      tensor.data.push_back(tensor.type == 1    ? number.from_float()
                            : tensor.type == 11 ? number.from_double()
                            : tensor.type == 6
                                ? static_cast<double>(static_cast<std::int32_t>(number.value))
                                : static_cast<double>(number.integer()));
    }
    return tensor;
  }

  // Name, shape (-1 for a size that is not a number, the batch mostly) and whether it holds integers.
  std::string read_value_info(WireMessage info) {
    std::string name;
    std::vector<std::int64_t> shape;
    bool has_shape = false, integers = false;
    for (WireField field; info.next(field);) {
      if (field.number == 1) name = field.text();
      if (field.number != 2) continue;
      WireMessage type = info.inside(field);
      for (WireField kind; type.next(kind);) {
        if (kind.number != 1) continue;
        WireMessage tensor = type.inside(kind);
        for (WireField part; tensor.next(part);) {
          if (part.number == 1) integers = part.value == 6 || part.value == 7;
          if (part.number != 2) continue;
          has_shape = true;
          WireMessage dimensions = tensor.inside(part);
          for (WireField dimension; dimensions.next(dimension);) {
            if (dimension.number != 1) continue;
            std::int64_t size = -1;
            WireMessage one = dimensions.inside(dimension);
            for (WireField value; one.next(value);)
              if (value.number == 1) size = value.integer();
            shape.push_back(size);
          }
        }
      }
    }
    if (has_shape) shapes_[name] = shape;
    if (integers) integers_.insert(name);
    return name;
  }

  void read_node(WireMessage message) {
    GraphNode node;
    Attributes attributes;
    std::string domain;
    for (WireField field; message.next(field);) {
      if (field.number == 1) node.inputs.push_back(field.text());
      if (field.number == 2) node.outputs.push_back(field.text());
      if (field.number == 3) node.name = field.text();
      if (field.number == 4) node.written = field.text();
      if (field.number == 5) read_attribute(message.inside(field), attributes);
      if (field.number == 7) domain = field.text();
      if (field.number == 9) read_metadata(message.inside(field), node);
    }
    const bool own = domain.empty() || domain == "ai.onnx" || domain == "com.microsoft";
    const auto known = names_of_onnx().find(node.written);
    if (own && known != names_of_onnx().end()) node.op = known->second;
    if (!own) node.written = domain + "." + node.written;
    if (node.outputs.empty())
      throw file_error(file_, "graph", fmt::format("node '{}' has no output", node.name));
    if (node.name.empty()) node.name = node.outputs[0];
    if (node.module.empty()) node.module = module_in_name(node.name);
    node.place = {file_, 0, 0, fmt::format("node '{}'", node.name)};
    if (node.written == "Constant") {
      add_constant(node, attributes);
      return;
    }
    attributes_.push_back(std::move(attributes));
    graph_.nodes.push_back(std::move(node));
  }

  void add_constant(const GraphNode& node, const Attributes& attributes) {
    Tensor tensor;
    for (const auto& [name, attribute] : attributes) {
      if (attribute.tensor)
        tensor = *attribute.tensor;
      else
        tensor.data = attribute.numbers;
    }
    GraphValue value;
    value.shape = tensor.shape;
    for (const std::string& output : node.outputs) {
      constants_[output] = tensor;
      graph_.values.emplace(output, value);
    }
  }

  static void read_attribute(WireMessage message, Attributes& attributes) {
    std::string name;
    Attribute attribute;
    std::vector<std::int64_t> integers;
    for (WireField field; message.next(field);) {
      if (field.number == 1) name = field.text();
      if (field.number == 2) attribute.numbers.push_back(field.from_float());
      if (field.number == 3) integers.push_back(field.integer());
      if (field.number == 4) attribute.text = field.text();
      if (field.number == 5) attribute.tensor = read_tensor(message.inside(field));
      if (field.number == 8) message.append(field, integers);
    }
    for (const std::int64_t number : integers)
      attribute.numbers.push_back(static_cast<double>(number));
    attributes[name] = std::move(attribute);
  }

  // PyTorch's exporter says which modules a node stands in, and their classes.
  void read_metadata(WireMessage message, GraphNode& node) {
    std::string key, value;
    for (WireField field; message.next(field);) {
      if (field.number == 1) key = field.text();
      if (field.number == 2) value = field.text();
    }
    if (key != "pkg.torch.onnx.name_scopes") return;
    const std::vector<std::string> scopes = quoted_texts(value);
    if (scopes.size() >= 2) node.module = scopes[scopes.size() - 2];
  }

  // ---- from ONNX's attributes and constant inputs to canonical numbers

  std::optional<std::vector<double>> constant(const GraphNode& node, std::size_t index) const {
    if (index >= node.inputs.size()) return std::nullopt;
    const auto found = constants_.find(node.inputs[index]);
    if (found == constants_.end() || (found->second.data.empty() && found->second.count() > 0))
      return std::nullopt;
    return found->second.data;
  }

  // Exporters cast and reshape constants in the graph, and join them to shapes.
  void pass_constants(const GraphNode& node) {
    const std::string& op = node.op;
    if (node.outputs.empty() || (op != "same" && op != "view" && op != "concat")) return;
    Tensor joined;
    const std::size_t parts = op == "concat" ? node.inputs.size() : 1;
    for (std::size_t i = 0; i < parts; ++i) {
      const auto data = constant(node, i);
      if (!data) return;
      joined.data.insert(joined.data.end(), data->begin(), data->end());
    }
    joined.shape = {static_cast<std::int64_t>(joined.data.size())};
    joined.type = op == "concat" ? 0 : constants_.at(node.inputs[0]).type;
    constants_[node.outputs[0]] = std::move(joined);
  }

  [[noreturn]] static void fail(const GraphNode& node, const std::string& what,
                                const std::string& hint = "") {
    throw located_error(node.place, fmt::format("{}: {}", node.written, what), hint);
  }

  void finish(GraphNode& node) {
    const Attributes& attributes =
        attributes_[static_cast<std::size_t>(&node - graph_.nodes.data())];
    if (!node.outputs.empty())
      if (const auto shape = shapes_.find(node.outputs[0]); shape != shapes_.end())
        node.shape = shape->second;
    const auto take = [&](const char* name, const char* canonical) {
      const auto found = attributes.find(name);
      if (found != attributes.end()) node.numbers[canonical] = found->second.numbers;
    };
    const auto take_input = [&](std::size_t index, const char* canonical) {
      if (const auto data = constant(node, index)) node.numbers[canonical] = *data;
      if (index < node.inputs.size()) node.inputs[index].clear();
    };
    const std::string& op = node.op;
    if (op == "conv" || op == "max_pool" || op == "avg_pool") {
      windows(node, attributes);
      take("group", "groups");
    } else if (op == "gemm") {
      if (node.inputs.size() < 2) fail(node, "has no weight");
      node.inputs = {node.inputs.size() > 2 ? node.inputs[2] : "", node.inputs[0], node.inputs[1]};
      take("transB", "transposed");
    } else if (op == "group_norm") {
      take("num_groups", "num_groups");
    } else if (op == "layer_norm") {
      check_last_axis(node, attributes);
    } else if (op == "clip") {
      take("min", "min");
      take("max", "max");
      take_input(1, "min");
      take_input(2, "max");
      node.numbers["inplace"] = {1};
    } else if (op == "relu" || op == "leaky_relu") {
      node.numbers["inplace"] = {1};
    } else if (op == "dropout") {
      take("ratio", "p");
      take_input(1, "p");
      node.inputs.resize(1);
    } else if (op == "mean") {
      node.numbers["keepdim"] = {1};
      take("axes", "dim");
      take_input(1, "dim");
      take("keepdims", "keepdim");
    } else if (op == "permute") {
      take("perm", "dims");
    } else if (node.written == "Flatten") {
      if (node.shape.empty()) node.shape = {-1, -1};
      node.inputs.resize(1);
    } else if (op == "view") {
      node.inputs.resize(1);
    } else if (op == "parts" || op == "same") {
      node.inputs.resize(1);
    } else if (node.written == "Slice") {
      node.numbers["start"] = constant(node, 1).value_or(std::vector<double>{0});
      node.inputs.resize(1);
    } else if (node.written == "Gather") {
      gather(node);
    } else if (op == "attention") {
      take("is_causal", "is_causal");
      node.inputs.resize(std::min<std::size_t>(node.inputs.size(), 4));
    }
    static const std::set<std::string> comparisons{"Less", "LessOrEqual", "Greater",
                                                   "GreaterOrEqual"};
    node.compares = node.written == "Trilu" || (comparisons.contains(node.written) &&
                                                !constant(node, 0) && !constant(node, 1));
  }

  void check_last_axis(const GraphNode& node, const Attributes& attributes) const {
    const auto axis = attributes.find("axis");
    if (axis == attributes.end() || axis->second.numbers.empty()) return;
    const double number = axis->second.numbers[0];
    if (number != -1 &&
        (node.shape.empty() || number != static_cast<double>(node.shape.size()) - 1))
      fail(node, "norms are known over the last dimension");
  }

  void windows(GraphNode& node, const Attributes& attributes) {
    const auto numbers = [&](const char* name) {
      const auto found = attributes.find(name);
      return found == attributes.end() ? std::vector<double>{} : found->second.numbers;
    };
    if (const auto pad = attributes.find("auto_pad");
        pad != attributes.end() && pad->second.text != "NOTSET" && pad->second.text != "VALID")
      fail(node, fmt::format("auto_pad {} is not known", pad->second.text), "give pads in numbers");
    const std::vector<double> pads = numbers("pads");
    if (pads.size() == 4) {
      if (pads[0] != pads[2] || pads[1] != pads[3])
        fail(node, "its padding differs before and after");
      node.numbers["padding"] = {pads[0], pads[1]};
    }
    node.numbers["stride"] = {1};
    for (const auto& [name, canonical] :
         {std::pair{"strides", "stride"}, std::pair{"dilations", "dilation"},
          std::pair{"kernel_shape", "kernel"}, std::pair{"ceil_mode", "ceil_mode"}})
      if (const std::vector<double> found = numbers(name); !found.empty())
        node.numbers[canonical] = found;
  }

  // Rows of a table by ids, or one index of a dimension.
  void gather(GraphNode& node) {
    if (node.inputs.size() < 2) fail(node, "has no indices");
    const auto index = constant(node, 1);
    const auto table = constants_.find(node.inputs[0]);
    const bool is_table =
        table != constants_.end() && table->second.is_float() && table->second.shape.size() == 2;
    if (is_table) {
      node.op = "embedding";
    } else if (index && index->size() == 1) {
      node.numbers["index"] = *index;
      node.inputs.resize(1);
    }
  }

  // ---- blocks

  // Repeated modules by their names: the outermost that end in a number of their own ("layer1.0",
  // "encoder_layer_0", not "layer1"), hold more than one module, and have neighbours.
  void set_blocks() {
    std::map<std::string, std::set<std::string>> held;
    for (const GraphNode& node : graph_.nodes)
      for (const std::string& path : numbered_paths(node.module)) held[path].insert(node.module);
    std::map<std::string, int> neighbours;
    for (const auto& [path, modules] : held)
      if (modules.size() > 1) ++neighbours[family(path)];
    for (GraphNode& node : graph_.nodes) {
      for (const std::string& path : numbered_paths(node.module)) {
        if (held.at(path).size() < 2 || neighbours[family(path)] < 2) continue;
        node.block = path;
        break;
      }
    }
  }

  static std::string family(const std::string& path) {
    return path.substr(0, path.find_last_not_of("0123456789") + 1);
  }

  static std::vector<std::string> numbered_paths(const std::string& module) {
    std::vector<std::string> paths;
    for (std::size_t end = 0; end != std::string::npos;) {
      end = module.find('.', end == 0 ? 0 : end + 1);
      const std::string path = module.substr(0, end);
      const std::string before = family(path);
      if (before.size() < path.size() &&
          (before.empty() || before.back() == '.' || before.back() == '_'))
        paths.push_back(path);
    }
    return paths;
  }

  const std::string file_;
  const std::string& bytes_;
  Graph graph_;
  std::map<std::string, Tensor> constants_;
  std::map<std::string, std::vector<std::int64_t>> shapes_;
  std::set<std::string> integers_;
  std::vector<Attributes> attributes_;  // of the nodes
};

}  // namespace

Graph read_onnx(const std::string& file, const std::string& bytes) {
  return OnnxReader(file, bytes).read();
}

}  // namespace lockstep
