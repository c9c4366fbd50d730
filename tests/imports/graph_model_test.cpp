// Do networks that PyTorch built become the models that are shipped? tests/imports/data/graphs holds
// graphs without weights; LOCKSTEP_GRAPHS names a folder with more (.ci/nightly makes one).
#include "imports/graph_model.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "core/protobuf_wire.hpp"
#include "imports/layer_list.hpp"
#include "imports/unpacked_text.hpp"
#include "source_dir.hpp"
#include "workload/model.hpp"
#include "workload/model_file.hpp"

namespace lockstep::graph_model_test {
namespace {

using testing::HasSubstr;

const std::string folder = LOCKSTEP_SOURCE_DIR "/tests/imports/data/graphs";

ImportedModel imported(const std::string& file) {
  const std::string text = unpacked_text(file);
  const bool onnx = file.find(".onnx") != std::string::npos;
  return model_of_graph(onnx ? read_onnx(file, text) : read_module_graph(file, text));
}

TrainingStep step_of(const ModelFile& file, const std::vector<std::int64_t>& image) {
  StepOptions options;
  options.samples = 4;
  options.image = image;
  return build_step(file, options);
}

TrainingStep step_of(const ImportedModel& model) {
  return step_of(read_model_text(model_text(model, std::nullopt), model.origin), model.image);
}

double saved_bytes(const TrainingStep& step) {
  std::map<int, double> storages;
  for (const Layer& layer : step.layers)
    for (const SavedTensor& tensor : layer.saved)
      storages[tensor.storage] = std::max(storages[tensor.storage], tensor.bytes);
  double bytes = 0;
  for (const auto& [storage, size] : storages) bytes += size;
  return bytes;
}

std::vector<std::int64_t> parameter_counts(const TrainingStep& step) {
  std::vector<std::int64_t> counts;
  for (const Layer& layer : step.layers)
    for (const Parameter& parameter : layer.parameters) counts.push_back(parameter.count);
  return counts;
}

// "resnet50.json.gz" is resnet50, "small_gpt2.eager.json.gz" small_gpt2.yaml beside the traces.
std::string model_name(const std::filesystem::path& file) {
  std::string name = file.filename().string();
  name = name.substr(0, name.find('.'));
  return name.starts_with("small_") ? LOCKSTEP_SOURCE_DIR "/tests/imports/data/" + name + ".yaml"
                                    : name;
}

void expect_shipped(const std::filesystem::path& file) {
  SCOPED_TRACE(file.string());
  const ImportedModel model = imported(file.string());
  const TrainingStep mine = step_of(model);
  const TrainingStep shipped = step_of(*load_model(model_name(file)), model.image);
  EXPECT_EQ(mine.parameter_count, shipped.parameter_count);
  EXPECT_EQ(parameter_counts(mine), parameter_counts(shipped));  // also their order
  EXPECT_DOUBLE_EQ(mine.forward_flops, shipped.forward_flops);
  EXPECT_DOUBLE_EQ(mine.backward_flops, shipped.backward_flops);
  EXPECT_DOUBLE_EQ(saved_bytes(mine), saved_bytes(shipped));
}

int compare_folders(const std::string& ending) {
  int files = 0;
  for (const char* where :
       {folder.c_str(), const_cast<const char*>(std::getenv("LOCKSTEP_GRAPHS"))}) {
    if (where == nullptr) continue;
    for (const auto& entry : std::filesystem::directory_iterator(where)) {
      if (entry.path().filename().string().find(ending) == std::string::npos) continue;
      expect_shipped(entry.path());
      ++files;
    }
  }
  return files;
}

TEST(ImportedModules, EqualTheShippedModels) {
  EXPECT_GE(compare_folders(".json"), 12);
}

TEST(ImportedOnnx, EqualsTheShippedModels) {
  EXPECT_GE(compare_folders(".onnx"), 5);
}

// One node a line, as lockstep.graph writes them. `x` is an image, `w` a convolution's weight, `v` a
// vector of parameters.
std::string graph_text(const std::vector<std::string>& nodes, const std::string& output) {
  std::string lines;
  for (const std::string& node : nodes) lines += (lines.empty() ? "" : ",\n") + node;
  return R"({"format": "lockstep-graph-1", "title": "small", "values": {
"x": {"input": "x", "shape": [2, 3, 8, 8], "tokens": false},
"w": {"parameter": "stem.weight", "shape": [4, 3, 3, 3], "trainable": true},
"v": {"parameter": "head.weight", "shape": [10, 4], "trainable": true}},
"outputs": [")" +
         output + "\"], \"nodes\": [\n" + lines + "\n]}\n";
}

std::string node(const std::string& name, const std::string& op, const std::string& arguments,
                 const std::string& shape) {
  return "{\"name\": \"" + name + "\", \"op\": \"aten." + op +
         "\", \"module\": \"\", \"block\": \"\", \"arguments\": {" + arguments + "}, \"shape\": [" +
         shape + "]}";
}

const std::string stem =
    node("c", "conv2d.default",
         R"("input": {"value": "x"}, "weight": {"value": "w"}, "bias": null, "padding": [1, 1])",
         "2, 4, 8, 8");
const std::string pooled =
    node("p", "mean.dim", R"("self": {"value": "c"}, "dim": [-1, -2])", "2, 4");
const std::string head =
    node("y", "linear.default", R"("input": {"value": "p"}, "weight": {"value": "v"})", "2, 10");

ImportedModel small(const std::vector<std::string>& nodes, const std::string& output) {
  return model_of_graph(read_module_graph("small.json", graph_text(nodes, output)));
}

std::string error_of(const std::vector<std::string>& nodes, const std::string& output) {
  try {
    small(nodes, output);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ImportedModules, AreWrittenAsPeopleWriteThem) {
  const ImportedModel model = small({stem, pooled, head}, "y");
  EXPECT_EQ(model_text(model, 50),
            "# Imported from small.json (small)\n"
            "title: \"small\"\n"
            "input: {image: [3, 8, 8], classes: 10}\n"
            "published: {parameters: 50, source: \"given when imported\"}\n"
            "layers:\n"
            "  - conv: {out: 4, kernel: 3, padding: 1, bias: false}\n"
            "    name: stem\n"
            "  - adaptive_avg_pool: 1\n"
            "    name: adaptive_avg_pool\n"
            "  - flatten:\n"
            "    name: flatten\n"
            "  - linear: {out: classes, bias: false}\n"
            "    name: head\n"
            "  - cross_entropy:\n"
            "    name: cross_entropy\n");
}

TEST(ImportedModules, LeaveOutWhatTheOutputDoesNotDependOn) {
  const std::string beside = node("r", "relu.default", R"("self": {"value": "c"})", "2, 4, 8, 8");
  EXPECT_EQ(small({stem, beside, pooled, head}, "y").layers,
            small({stem, pooled, head}, "y").layers);
}

TEST(ImportedModules, UnknownOperatorsAreListedWithTheirPlace) {
  const std::string first = node("a", "fft.default", R"("self": {"value": "c"})", "2, 4, 8, 8");
  const std::string again = node("b", "fft.default", R"("self": {"value": "a"})", "2, 4, 8, 8");
  const std::string other = node("d", "sort.default", R"("self": {"value": "c"})", "2, 4, 8, 8");
  const std::string error = error_of({stem, first, again, other, pooled, head}, "y");
  EXPECT_THAT(error, HasSubstr("small.json:7:1: a: the operator 'aten.fft.default' is not known"));
  EXPECT_THAT(error, HasSubstr("small.json:9:1: d: the operator 'aten.sort.default' is not known; "
                               "known: _softmax, _to_copy, "));
  EXPECT_THAT(error, HasSubstr("conv2d"));
}

TEST(ImportedModules, WhatTheFormatCannotSayIsRefusedAtItsNode) {
  const auto conv = [](const std::string& more) {
    return node("c", "conv2d.default",
                R"("input": {"value": "x"}, "weight": {"value": "w"}, "bias": null, )" + more,
                "2, 4, 8, 8");
  };
  EXPECT_THAT(error_of({conv(R"("stride": [1, 2])")}, "c"),
              HasSubstr("small.json:6:1: c: aten.conv2d.default: its stride differs in height and "
                        "width"));
  EXPECT_THAT(
      error_of({stem, node("s", "softmax.int", R"("self": {"value": "c"}, "dim": 1)", "2, 4")},
               "s"),
      HasSubstr("s: aten.softmax.int: a softmax is known inside of attention only"));
  EXPECT_THAT(
      error_of({stem, node("s", "select.int", R"("self": {"value": "c"}, "index": 1)", "2")}, "s"),
      HasSubstr("s: aten.select.int: "));
  EXPECT_THAT(error_of({stem, node("s", "sqrt.default", R"("self": {"value": "c"})", "2, 4, 8, 8"),
                        node("t", "relu.default", R"("self": {"value": "s"})", "2, 4, 8, 8")},
                       "t"),
              HasSubstr("small.json:7:1: s: the operators from here to t (sqrt) make no layer"));
  EXPECT_THAT(error_of({stem}, "c"), HasSubstr("outputs: the first output is an image"));
  EXPECT_THAT(error_of({stem, pooled}, "z"), HasSubstr("'z' is no layer's output"));
  EXPECT_THAT(error_of({pooled}, "p"), HasSubstr("reads 'c', which no node before it makes"));
}

TEST(ImportedModules, BadFilesAreRefused) {
  const auto error = [](const std::string& text) -> std::string {
    try {
      read_module_graph("bad.json", text);
    } catch (const ConfigError& found) {
      return found.what();
    }
    return "no error";
  };
  const std::string whole = graph_text({stem}, "c");
  EXPECT_THAT(error(whole.substr(0, 100)), HasSubstr("bad.json:2:"));
  EXPECT_THAT(error("{\"format\": \"lockstep-graph-2\"}"), HasSubstr("bad.json: format: "));
  EXPECT_THAT(error(R"({"format": "lockstep-graph-1", "title": 3})"),
              HasSubstr("bad.json: no graph of lockstep.graph"));
}

// ---- ONNX of our own, field by field (onnx.proto)

WireWriter tensor_info(const std::string& name, const std::vector<std::int64_t>& shape) {
  WireWriter dimensions, tensor, type, info;
  for (const std::int64_t size : shape) {
    WireWriter dimension;
    if (size > 0) dimension.integer(1, static_cast<std::uint64_t>(size));
    if (size < 0) dimension.text(2, "batch");
    dimensions.message(1, dimension);
  }
  tensor.integer(1, 1);  // float
  tensor.message(2, dimensions);
  type.message(1, tensor);
  info.text(1, name);
  info.message(2, type);
  return info;
}

WireWriter weight(const std::string& name, const std::vector<std::int64_t>& shape) {
  WireWriter tensor;
  for (const std::int64_t size : shape) tensor.integer(1, static_cast<std::uint64_t>(size));
  tensor.integer(2, 1);
  tensor.text(8, name);
  return tensor;
}

struct OnnxNode {
  std::string type, output;
  std::vector<std::string> inputs;
  std::map<std::string, std::vector<std::int64_t>> attributes = {};
  std::string domain = {};
};

// An image "x" of any batch through the nodes to "y"; a convolution's and a matrix' weight.
std::string onnx_bytes(const std::vector<OnnxNode>& nodes) {
  WireWriter graph, model;
  for (const OnnxNode& one : nodes) {
    WireWriter made;
    for (const std::string& input : one.inputs) made.text(1, input);
    made.text(2, one.output);
    made.text(4, one.type);
    for (const auto& [name, numbers] : one.attributes) {
      WireWriter attribute;
      attribute.text(1, name);
      for (const std::int64_t number : numbers)
        attribute.integer(8, static_cast<std::uint64_t>(number));
      made.message(5, attribute);
    }
    if (!one.domain.empty()) made.text(7, one.domain);
    graph.message(1, made);
  }
  graph.message(5, weight("stem.weight", {4, 3, 3, 3}));
  graph.message(5, weight("head.weight", {10, 4}));
  graph.message(5, weight("head.bias", {10}));
  graph.message(11, tensor_info("x", {-1, 3, 8, 8}));
  graph.message(12, tensor_info("y", {-1, 10}));
  model.integer(1, 8);
  model.message(7, graph);
  return model.bytes();
}

const OnnxNode onnx_stem{"Conv", "c", {"x", "stem.weight"}, {{"pads", {1, 1, 1, 1}}}};
const OnnxNode onnx_pool{"GlobalAveragePool", "p", {"c"}};
const OnnxNode onnx_flat{"Flatten", "f", {"p"}};
const OnnxNode onnx_head{"Gemm", "y", {"f", "head.weight", "head.bias"}, {{"transB", {1}}}};

std::string onnx_layers(const std::vector<OnnxNode>& nodes) {
  try {
    return model_of_graph(read_onnx("my/small.onnx", onnx_bytes(nodes))).layers;
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(ImportedOnnx, NeedsNoShapesForPlainNetworks) {
  EXPECT_EQ(onnx_layers({onnx_stem,
                         {"Relu", "r", {"c"}},
                         {"GlobalAveragePool", "p", {"r"}},
                         onnx_flat,
                         onnx_head}),
            "layers:\n"
            "  - conv: {out: 4, kernel: 3, padding: 1, bias: false}\n"
            "    name: stem\n"
            "  - relu: {inplace: true}\n"
            "    name: relu\n"
            "  - adaptive_avg_pool: 1\n"
            "    name: adaptive_avg_pool\n"
            "  - flatten:\n"
            "    name: flatten\n"
            "  - linear: {out: classes}\n"
            "    name: head\n"
            "  - cross_entropy:\n"
            "    name: cross_entropy\n");
}

TEST(ImportedOnnx, OperatorsOfPartsBecomeTheLayerTheyAre) {
  const auto activation = [](const std::vector<OnnxNode>& parts) {
    std::vector<OnnxNode> nodes{onnx_stem};
    nodes.insert(nodes.end(), parts.begin(), parts.end());
    nodes.push_back({"GlobalAveragePool", "p", {parts.back().output}});
    nodes.push_back(onnx_flat);
    nodes.push_back(onnx_head);
    return onnx_layers(nodes);
  };
  EXPECT_THAT(activation({{"Sigmoid", "s", {"c"}}, {"Mul", "a", {"c", "s"}}}),
              HasSubstr("  - silu:\n"));
  EXPECT_THAT(activation({{"Sigmoid", "s", {"c"}}}), HasSubstr("  - sigmoid:\n"));
  EXPECT_THAT(activation({{"Erf", "e", {"c"}}, {"Mul", "a", {"c", "e"}}}),
              HasSubstr("  - gelu:\n"));
}

TEST(ImportedOnnx, UnknownOperatorsAreListedWithTheirNode) {
  const std::string error = onnx_layers({onnx_stem,
                                         {"Det", "d", {"c"}},
                                         {"Relu", "e", {"c"}, {}, "my.domain"},
                                         onnx_pool,
                                         onnx_flat,
                                         onnx_head});
  EXPECT_THAT(error, HasSubstr("my/small.onnx: node 'd': the operator 'Det' is not known\n"));
  EXPECT_THAT(error,
              HasSubstr("node 'e': the operator 'my.domain.Relu' is not known; known: Add, "));
}

TEST(ImportedOnnx, WhatTheFormatCannotSayIsRefusedAtItsNode) {
  const auto with = [](const OnnxNode& odd) {
    return onnx_layers({onnx_stem, odd, onnx_pool, onnx_flat, onnx_head});
  };
  OnnxNode conv = onnx_stem;
  conv.attributes["pads"] = {1, 1, 2, 2};
  EXPECT_THAT(onnx_layers({conv}),
              HasSubstr("node 'c': Conv: its padding differs before and after"));
  EXPECT_THAT(onnx_layers({onnx_stem, {"Reshape", "r", {"c"}}, {"Relu", "y", {"r"}}}),
              HasSubstr("node 'r': Reshape: its shape is not in the file; export with "
                        "torch.onnx.export(..., dynamo=True)"));
  EXPECT_THAT(onnx_layers({onnx_stem, {"Transpose", "y", {"c"}, {{"perm", {0, 3, 1, 2}}}}}),
              HasSubstr("the order 0, 3, 1, 2 of an image's dimensions is not known"));
  EXPECT_THAT(onnx_layers({{"Conv", "c", {"x", "x"}}}), HasSubstr("its input 2 is no parameter"));
  EXPECT_THAT(with({"Relu", "r", {"nothing"}}), HasSubstr("reads 'nothing', which no node before"));
}

TEST(ImportedOnnx, DamagedFilesAreErrorsAndNothingElse) {
  const std::string whole = onnx_bytes({onnx_stem, onnx_pool, onnx_flat, onnx_head});
  int refused = 0;
  const auto attempt = [&](const std::string& bytes) {
    try {
      model_of_graph(read_onnx("small.onnx", bytes));
    } catch (const ConfigError&) {
      ++refused;
    }
  };
  for (std::size_t size = 0; size < whole.size(); ++size) attempt(whole.substr(0, size));
  EXPECT_EQ(refused, static_cast<int>(whole.size()));  // the graph is the last field
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int flip : {1, 0x40, 0x80, 0xff}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      attempt(bytes);
    }
  }
  EXPECT_GT(refused, 2 * static_cast<int>(whole.size()));
}

TEST(LayerList, BlocksThatLookAlikeAreRepeated) {
  const auto block = [](const std::string& path, const std::string& before) {
    return std::vector<ListedLayer>{{path + ".fc", path, "linear", "4", {before}},
                                    {path + ".add", path, "add", "", {path + ".fc", before}}};
  };
  std::vector<ListedLayer> layers{{"stem", "", "linear", "4", {"input"}}};
  for (const char* path : {"h.1", "h.2", "h.3"})
    for (const ListedLayer& layer : block(path, layers.back().name)) layers.push_back(layer);
  EXPECT_EQ(layers_text(layers),
            "layers:\n  - linear: 4\n    name: stem\n"
            "  - name: h.{i + 1}\n    repeat:\n      count: 3\n      layers:\n"
            "        - linear: 4\n          name: fc\n"
            "        - add:\n          name: add\n          from: [fc, input]\n");
}

TEST(LayerList, NamesThatWouldMeanAnotherLayerBreakTheBlock) {
  // Inside h.1 the name "stem" would be h.1.stem.
  const std::vector<ListedLayer> layers{{"stem", "", "relu", "", {"input"}},
                                        {"more", "", "relu", "", {"stem"}},
                                        {"h.1.stem", "h.1", "relu", "", {"more"}},
                                        {"h.1.add", "h.1", "add", "", {"h.1.stem", "stem"}}};
  EXPECT_THAT(layers_text(layers), HasSubstr("    name: h.1.add\n    from: [h.1.stem, stem]\n"));
  EXPECT_THAT(layers_text(layers), testing::Not(HasSubstr("repeat")));
}

TEST(LayerList, ABlockInTwoPiecesIsNone) {
  const std::vector<ListedLayer> layers{{"h.1.a", "h.1", "relu", "", {"input"}},
                                        {"b", "", "relu", "", {"h.1.a"}},
                                        {"h.1.c", "h.1", "relu", "", {"b"}}};
  EXPECT_THAT(layers_text(layers), testing::Not(HasSubstr("repeat")));
}

}  // namespace
}  // namespace lockstep::graph_model_test
