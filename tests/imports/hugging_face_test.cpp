// Do config.json files of Hugging Face become models with the published parameter counts, equal to
// the shipped ones, and is what they cannot become refused where it stands?
//
// The files in data/hugging_face/ are written by hand: documented fields, sizes of the named
// checkpoints, made-up labels.
#include "imports/hugging_face.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>

#include "core/errors.hpp"
#include "source_dir.hpp"
#include "test_folder.hpp"
#include "workload/model.hpp"
#include "workload/model_file.hpp"

namespace lockstep::hugging_face_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string config(const std::string& name) {
  return LOCKSTEP_SOURCE_DIR "/tests/imports/data/hugging_face/" + name + ".json";
}

ImportedModel imported(const std::string& file) {
  ImportedModel model = import_hugging_face(file);
  count_parameters(model, std::nullopt);
  return model;
}

struct Published {
  const char* config;
  const char* shipped;  // "" = none is
  std::int64_t parameters;
};

class PublishedModels : public testing::TestWithParam<Published> {};

TEST_P(PublishedModels, HaveTheirParameters) {
  EXPECT_EQ(imported(config(GetParam().config)).trained_parameters, GetParam().parameters);
}

std::int64_t saved_bytes(const TrainingStep& step) {
  std::int64_t sum = 0;
  for (const Layer& layer : step.layers)
    for (const SavedTensor& saved : layer.saved) sum += saved.bytes;
  return sum;
}

TEST_P(PublishedModels, CostWhatTheShippedOnesCost) {
  const ImportedModel model = imported(config(GetParam().config));
  const ModelFile file = read_model_text(model_text(model, std::nullopt), "imported");
  const std::shared_ptr<const ModelFile> shipped = load_model(GetParam().shipped);
  StepOptions options;
  if (model.image.empty()) options.sequence = 256;
  // The shipped language models leave the loss's cast to the scenario.
  if (model.base == "llama" || model.base == "gpt") options.parameters["upcast_loss"] = 1;
  const TrainingStep ours = build_step(file, options);
  const TrainingStep theirs = build_step(*shipped, options);
  EXPECT_EQ(ours.parameter_count, theirs.parameter_count);
  EXPECT_EQ(ours.forward_flops, theirs.forward_flops);
  EXPECT_EQ(saved_bytes(ours), saved_bytes(theirs));
  EXPECT_EQ(ours.layers.size(), theirs.layers.size());
}

// Counts of the classes with a head, as on the model hub. BERT's is that of the encoder with pooler,
// 109,482,240, less the pooler (768 x 769) and with the masked-language-model head: as many for the
// transform, a layer norm (2 x 768) and the decoder's bias (30,522).
INSTANTIATE_TEST_SUITE_P(HuggingFace, PublishedModels,
                         testing::Values(Published{"llama2_7b", "llama2-7b", 6738415616},
                                         Published{"llama3_8b", "llama3-8b", 8030261248},
                                         Published{"llama3_2_1b", "llama3.2-1b", 1235814400},
                                         Published{"qwen2_5_7b", "qwen2.5-7b", 7615616512},
                                         Published{"mistral_7b", "mistral-7b", 7241732096},
                                         Published{"gpt2", "gpt2", 124439808},
                                         Published{"bert_base_uncased", "bert-base",
                                                   109482240 + 2 * 768 + 30522},
                                         Published{"vit_base_patch16_224", "vit_b_16", 86567656}),
                         [](const auto& one) { return std::string(one.param.config); });

TEST(HuggingFace, WritesSettingsOfTheFamily) {
  const ImportedModel model = imported(config("llama2_7b"));
  EXPECT_EQ(model_text(model, 6738415616),
            "# Imported from llama2_7b.json (LlamaForCausalLM)\n"
            "base: llama\n"
            "title: \"meta-llama/Llama-2-7b-hf\"\n"
            "parameters:\n"
            "  {layers: 32, hidden: 4096, heads: 32, kv_heads: 32, head_size: 128, mlp: 11008, "
            "vocabulary: 32000, sequence: 4096, tied: 0, biases: 0, upcast_loss: 1}\n"
            "published: {parameters: 6738415616, source: \"given when imported\"}\n");
  EXPECT_THAT(model.notes, IsEmpty());
  EXPECT_THAT(model_text(imported(config("vit_base_patch16_224")), std::nullopt),
              HasSubstr("input: {image: [3, 224, 224], classes: 1000}\n"));
}

// A file of each test's own: they run side by side.
// The file with `from` replaced by `to`.
std::string changed(const std::string& name, const std::string& from, const std::string& to) {
  std::ifstream file(config(name));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return test_folder().write("config.json", text.replace(at, from.size(), to));
}

TEST(HuggingFace, AbsentAndNullFieldsHaveTheirDocumentedDefaults) {
  const auto count = [](const std::string& file) { return imported(file).trained_parameters; };
  EXPECT_EQ(count(changed("llama2_7b", "\"num_key_value_heads\": 32,", "")), 6738415616);
  EXPECT_EQ(count(changed("gpt2", "\"n_ctx\": 1024", "\"n_inner\": null")), 124439808);
  // Two labels: 998 rows of the head less.
  EXPECT_EQ(count(changed("vit_base_patch16_224", "\"id2label\"", "\"others\"")),
            86567656 - 998 * 769);
  // A head of its own size: Mistral Nemo's way.
  EXPECT_EQ(count(changed("mistral_7b", "\"vocab", "\"head_dim\": 64, \"vocab")),
            7241732096 - 32 * (2 * 4096 * 2048 + 2 * 4096 * 512));
}

TEST(HuggingFace, SaysWhereTheModelPartsFromTheOriginal) {
  EXPECT_THAT(imported(config("mistral_7b")).notes,
              ElementsAre(HasSubstr("sliding window of 4096 tokens")));
  EXPECT_THAT(
      imported(changed("mistral_7b", "\"sliding_window\": 4096", "\"sliding_window\": null")).notes,
      IsEmpty());
  EXPECT_THAT(imported(changed("qwen2_5_7b", "\"use_sliding_window\": false",
                               "\"use_sliding_window\": true"))
                  .notes,
              IsEmpty());  // the window is as long as the sequence
  EXPECT_THAT(imported(changed("gpt2", "gelu_new", "gelu")).notes, IsEmpty());
  EXPECT_THAT(imported(changed("gpt2", "\"attn_pdrop\": 0.1", "\"attn_pdrop\": 0.0")).notes,
              testing::Contains(HasSubstr("only some dropouts")));
  EXPECT_THAT(imported(changed("bert_base_uncased", "\"hidden_dropout_prob\": 0.1",
                               "\"hidden_dropout_prob\": 0"))
                  .notes,
              ElementsAre(HasSubstr("hidden_dropout_prob is 0")));
  EXPECT_THAT(imported(changed("gpt2", "\"GPT2LMHeadModel\"", "")).notes,
              testing::Contains(HasSubstr("taken as GPT2LMHeadModel")));
}

TEST(HuggingFace, RefusesWithThePlace) {
  struct Case {
    const char *file, *from, *to, *error;
  };
  const Case cases[] = {
      {"llama2_7b", "\"llama\"", "\"mixtral\"",
       "config.json:13:17: model_type: 'mixtral' is not known; allowed: bert, gpt2, llama, "
       "mistral, "
       "qwen2, vit"},
      {"llama2_7b", "\"llama\"", "\"lama\"", "did you mean 'llama'?"},
      {"llama2_7b", "\"model_type\"", "\"type\"", "config.json:1:1: model_type: missing"},
      {"llama2_7b", "\"hidden_size\"", "\"size\"", "config.json:1:1: hidden_size: missing"},
      {"mistral_7b", "\"num_key_value_heads\"", "\"kv\"", "num_key_value_heads: missing"},
      {"llama2_7b", "\"hidden_size\": 4096", "\"hidden_size\": \"4096\"",
       "config.json:9:18: hidden_size: must be a whole number from 1 to 2147483647"},
      {"llama2_7b", "\"num_hidden_layers\": 32", "\"num_hidden_layers\": 0",
       "config.json:15:24: num_hidden_layers: must be a whole number"},
      {"llama2_7b", "\"num_hidden_layers\": 32", "\"num_hidden_layers\": 2147483647",
       "2147483647 times is not possible"},
      {"llama2_7b", "\"hidden_size\": 4096", "\"hidden_size\": 4097",
       "num_attention_heads: 32 does not divide hidden_size, 4097"},
      {"llama3_8b", "\"num_key_value_heads\": 8", "\"num_key_value_heads\": 7",
       "num_key_value_heads: 7 does not divide num_attention_heads, 32"},
      {"llama3_8b", "\"attention_bias\": false", "\"attention_bias\": true",
       "attention_bias: true is not in the model's description; allowed: false"},
      {"llama3_8b", "\"attention_bias\": false", "\"attention_bias\": 1",
       "attention_bias: must be true or false"},
      {"llama3_2_1b", "\"mlp_bias\": false", "\"mlp_bias\": true", "mlp_bias: true is not"},
      {"llama3_8b", "\"attention_dropout\": 0.0", "\"attention_dropout\": 0.1",
       "attention_dropout: this dropout is not in the model's description"},
      {"llama3_8b", "\"attention_dropout\": 0.0", "\"attention_dropout\": NaN",
       "attention_dropout: must be a number"},
      {"llama3_8b", "\"silu\"", "\"relu\"", "hidden_act: 'relu' is not"},
      {"llama3_8b", "\"silu\"", "7", "hidden_act: must be a text"},
      {"llama3_8b", "\"use_cache\"", "\"quantization_config\"",
       "quantised weights are not modelled"},
      {"gpt2", "\"gelu_new\"", "\"relu\"", "activation_function: 'relu' is not"},
      {"gpt2", "\"n_ctx\": 1024", "\"add_cross_attention\": true",
       "add_cross_attention: true is not"},
      {"bert_base_uncased", "BertForMaskedLM", "BertModel",
       "architectures: 'BertModel' has another head; allowed: BertForMaskedLM"},
      {"bert_base_uncased", "[\n    \"BertForMaskedLM\"\n  ]", "\"BertForMaskedLM\"",
       "architectures: must be a list"},
      {"bert_base_uncased", "\"type_vocab_size\": 2", "\"type_vocab_size\": 1",
       "type_vocab_size: "},
      {"bert_base_uncased", "\"absolute\"", "\"relative_key\"", "position_embedding_type: "},
      {"vit_base_patch16_224", "\"qkv_bias\": true", "\"qkv_bias\": false",
       "qkv_bias: false is not"},
      {"vit_base_patch16_224", "\"id2label\": {", "\"id2label\": 5, \"others\": {",
       "id2label: must be a map with entries"},
      {"gpt2", "\"vocab_size\": 50257\n}", "\"vocab", "config.json:"},
  };
  for (const Case& one : cases) {
    try {
      imported(changed(one.file, one.from, one.to));
      ADD_FAILURE() << one.to << " was taken";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(one.error));
    }
  }
  EXPECT_THROW(import_hugging_face(test_folder().write("config.json", "[1, 2]\n")), ConfigError);
}

}  // namespace
}  // namespace lockstep::hugging_face_test
