// Does every mistake in a model file, or in a request for a step, get a message with its place and
// a hint?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "build.hpp"

namespace lockstep::errors_test {
namespace {

using testing::HasSubstr;

std::string message_of(const std::string& text, const StepOptions& options = {}) {
  try {
    build_text(text, options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

struct BadModel {
  const char* name;
  const char* layers;  // after a valid header, unless it starts with '!'
  const char* message;
};

std::string full_text(const std::string& layers) {
  if (layers[0] == '!') return layers.substr(1);
  return "input: {image: [3, 32, 32], classes: 10}\nparameters: {wide: 8}\nlayers:\n" + layers;
}

class BadModels : public testing::TestWithParam<BadModel> {};

TEST_P(BadModels, AreAnsweredWithPlaceAndReason) {
  const std::string message = message_of(full_text(GetParam().layers));
  EXPECT_THAT(message, HasSubstr(GetParam().message));
  EXPECT_THAT(message, testing::ContainsRegex("^test.yaml:?"));
}

const BadModel bad_models[] = {
    {"misspelt_operator", "  - covn: {out: 3}", "test.yaml:4:5: layers[0].covn: unknown operator"},
    {"suggestion", "  - covn: {out: 3}", "did you mean 'conv'"},
    {"misspelt_argument", "  - conv: {out: 3, kernle: 3}", "did you mean 'kernel'"},
    {"missing_argument", "  - conv: {kernel: 3}", "conv needs `out:`"},
    {"negative_size", "  - conv: {out: -3}", "-3 is out of range"},
    {"zero_stride", "  - conv: {out: 3, stride: 0}", "0 is out of range"},
    {"fraction", "  - conv: {out: 2.5}", "'2.5' is not an integer expression"},
    {"unknown_name", "  - conv: {out: wdie}", "did you mean 'wide'"},
    {"norm_of_heads", "  - flatten:\n  - rms_norm: {heads: 5}",
     "5 heads do not divide 3072 features"},
    {"division", "  - conv: {out: wide / 3}", "8 is not divisible by 3"},
    {"huge", "  - conv: {out: 1000000 * 1000000 * 1000000 * 1000000}", "does not fit in 63 bits"},
    {"huge_tensor", "  - conv: {out: 1099511627776, kernel: 65535, padding: 65535}",
     "does not fit in 63 bits"},
    {"two_operators", "  - {conv: {out: 3}, relu: }", "cannot be both 'conv' and 'relu'"},
    {"no_operator", "  - {name: a}", "a layer needs an operator"},
    {"list_as_layer", "  - [conv, relu]", "a layer is a name, or a map"},
    {"layers_no_list", "  conv: {out: 3}", "needs a list of layers"},
    {"small_image", "  - conv: {out: 3, kernel: 33}",
     "a size of 32 (with padding 32) is too small"},
    {"no_block",
     "  - repeat: {count: wide - 8, layers: [relu]}\n  - repeat: {count: 0, layers: [relu]}",
     "test.yaml:4:5: layers[0].repeat: 0 times is not possible: the network would have no block"},
    {"small_pool", "  - max_pool: 64", "too small for a pooling window of 64"},
    {"pool_padding", "  - max_pool: {kernel: 2, padding: 2}", "more than half the window"},
    {"groups", "  - conv: {out: 4, groups: 2}", "2 groups"},
    {"linear_on_image", "  - linear: 10", "put `flatten`"},
    {"conv_on_vector", "  - flatten\n  - conv: {out: 3}", "conv needs an image"},
    {"attention_on_image", "  - attention: {heads: 2}", "attention needs sequences"},
    {"no_loss", "  - flatten", "not with a loss"},
    {"after_loss", "  - flatten\n  - cross_entropy\n  - relu\n  - linear: 3", "a single number"},
    {"residual_shapes", "  - residual:\n      - conv: {out: 5}",
     "add joins 5 x 32 x 32 with 3 x 32 x 32"},
    {"concat_shapes", "  - concat:\n      - []\n      - - max_pool: 2",
     "differ in more than channels"},
    {"one_branch", "  - add:\n      - []", "joins 2 to"},
    {"forward_reference", "  - relu:\n    from: later\n  - relu:\n    name: later",
     "no earlier layer is called 'later'"},
    {"two_names", "  - relu:\n    name: a\n  - relu:\n    name: a", "two layers called 'a'"},
    {"bad_name", "  - relu:\n    name: a{b", "do not match"},
    {"probability", "  - dropout: 1.5", "a probability lies in"},
    {"word", "  - squeeze_excite: {channels: 2, gate: tanh}", "'tanh' is not possible here"},
    {"sequential_name", "  - sequential: [relu]", "needs a `name:`"},
    {"tied", "  - flatten\n  - linear: {out: 10, tied_to: nothing}", "no earlier layer 'nothing'"},
    {"repeat_count", "  - repeat: {count: -1, layers: [relu]}", "-1 times is not possible"},
    {"repeat_key", "  - repeat: {conut: 3, layers: [relu]}", "did you mean 'count'"},
    {"bomb", "  - repeat: {count: 1000, layers: [{repeat: {count: 1000, layers: [relu]}}]}",
     "more than 100000 layers"},
    {"empty_bomb", "  - repeat: {count: 100000, layers: [{repeat: {count: 100000, layers: []}}]}",
     "too many steps"},
    {"self_use",
     "!input: {image: [3, 8, 8]}\nblocks:\n  a: {layers: [b]}\n  b: {layers: [a]}\nlayers: [a]",
     "uses itself: a cycle"},
    {"block_argument",
     "!input: {image: [3, 8, 8]}\nblocks:\n  a: {arguments: {n: }, layers: [relu]}\nlayers: [a]",
     "block 'a' needs `n:`"},
    {"block_name", "!input: {image: [3, 8, 8]}\nblocks:\n  conv: {layers: [relu]}\nlayers: [conv]",
     "cannot have the name of an operator"},
    {"reserved", "!input: {image: [3, 8, 8]}\nparameters: {channels: 3}\nlayers: [relu]",
     "the name of every step's input"},
    {"no_input", "!layers: [relu]", "a model needs `input:`"},
    {"no_layers", "!input: {image: [3, 8, 8]}", "a model needs `layers:`"},
    {"two_inputs", "!input: {image: [3, 8, 8], tokens: 5}\nlayers: [relu]", "not both"},
    {"image_sizes", "!input: {image: [3, 8]}\nlayers: [relu]", "needs three sizes"},
    {"zero_image", "!input: {image: [3, 0, 8]}\nlayers: [relu]", "0 is not a possible size"},
    {"top_key", "!inputs: {image: [3, 8, 8]}\nlayers: [relu]", "did you mean 'input'"},
    {"base", "!base: resnet5\n", "there is no model 'resnet5'"},
    {"base_parameter", "!base: resnet\nparameters: {blocks5: 1}\n", "no such parameter"},
    {"heads",
     "!input: {tokens: 8}\nlayers:\n  - embedding: {rows: 9, features: 96}\n  - attention: {heads: "
     "5}",
     "96 features are not divisible by 15"},
    {"positions",
     "!input: {tokens: 8}\nlayers:\n  - embedding: {rows: 9, features: 4}\n  - position_embedding: "
     "{length: 7}",
     "longer than the 7 positions"},
    {"published", "!input: {tokens: 8}\npublished: {parameters: 3}\nlayers: []", "need a `source`"},
};

INSTANTIATE_TEST_SUITE_P(Table, BadModels, testing::ValuesIn(bad_models),
                         [](const auto& instance) { return instance.param.name; });

TEST(BadModelFiles, ReportAllStaticMistakesAtOnce) {
  const std::string message =
      message_of(full_text("  - covn: {out: 3}\n  - conv: {outt: 3}\n  - relu: {inplace: 1 +}\n"));
  EXPECT_THAT(message, HasSubstr("test.yaml:4:"));
  EXPECT_THAT(message, HasSubstr("test.yaml:5:"));
  EXPECT_THAT(message, HasSubstr("test.yaml:6:"));
}

std::string refusal(const std::string& model, const StepOptions& options) {
  try {
    build_step(*load_model(model), options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(BadRequests, AreRefusedWithTheReason) {
  StepOptions options;
  options.samples = 0;
  EXPECT_THAT(refusal("vgg16", options), HasSubstr("a batch of 0 samples"));
  options = {};
  options.sequence = 100;
  EXPECT_THAT(refusal("vgg16", options), HasSubstr("reads images, not tokens"));
  options = {};
  options.image = {3, 224, 224};
  EXPECT_THAT(refusal("gpt2", options), HasSubstr("reads tokens, not images"));
  options.image = {3, 8, 8};
  EXPECT_THAT(refusal("densenet121", options), HasSubstr("is too small"));
  options.image = {3, 224};
  EXPECT_THAT(refusal("vgg16", options), HasSubstr("needs [channels, height, width]"));
  options = {};
  options.parameters["layer"] = 3;
  EXPECT_THAT(refusal("gpt", options), HasSubstr("did you mean 'layers'"));
  options = {};
  options.samples = std::int64_t{1} << 60;
  EXPECT_THAT(refusal("vgg16", options), HasSubstr("does not fit in 63 bits"));
  options = {};
  options.parameters = {{"hidden", 100}, {"heads", 7}};
  EXPECT_THAT(refusal("gpt", options), HasSubstr("h.0.attn.attention: 300 features"));
  EXPECT_THROW(load_model("vgg61"), ConfigError);
  EXPECT_THROW(load_model("../models/vgg16"), ConfigError);
  EXPECT_THROW(load_model(""), ConfigError);
}

// A checkpoint has a table with a fixed number of positions, so a longer sequence is refused.
TEST(Models, RefuseSequencesBeyondTheirPositions) {
  for (const auto& [model, positions] :
       {std::pair{"gpt2", 1024}, {"gpt2-xl", 1024}, {"bert-base", 512}}) {
    StepOptions options;
    options.sequence = positions;
    EXPECT_NO_THROW(build_step(*load_model(model), options)) << model;
    ++options.sequence;
    EXPECT_THROW(build_step(*load_model(model), options), ConfigError) << model;
  }
}

}  // namespace
}  // namespace lockstep::errors_test
