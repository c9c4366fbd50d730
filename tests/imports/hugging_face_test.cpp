// Do config.json files of Hugging Face become models with the published parameter counts, equal to
// the shipped models, and is a config that cannot become a model refused at its place?
//
// The files in data/hugging_face/ are written by hand: documented fields, sizes of the named
// checkpoints, made-up labels.
#include "imports/hugging_face.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <map>

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

struct Published {
  const char* config;
  const char* shipped;  // "" = no such model is shipped
  std::int64_t parameters;
};

class PublishedModels : public testing::TestWithParam<Published> {};

TEST_P(PublishedModels, HaveTheirParameters) {
  EXPECT_EQ(import_hugging_face(config(GetParam().config)).trained_parameters,
            GetParam().parameters);
}

std::int64_t saved_bytes(const TrainingStep& step) {
  std::int64_t sum = 0;
  for (const Layer& layer : step.layers)
    for (const SavedTensor& saved : layer.saved) sum += saved.bytes;
  return sum;
}

TEST_P(PublishedModels, CostWhatTheShippedOnesCost) {
  const ImportedModel model = import_hugging_face(config(GetParam().config));
  if (*GetParam().shipped == 0) GTEST_SKIP() << "no such model is shipped";
  const ModelFile file = read_model_text(model_text(model), "imported");
  const std::shared_ptr<const ModelFile> shipped = load_model(GetParam().shipped);
  StepOptions options;
  if (model.image.empty()) options.sequence = 256;
  // The shipped language models leave the cast of the loss to the scenario.
  if (model.base == "llama" || model.base == "gpt" || model.base == "mixtral")
    options.parameters["upcast_loss"] = 1;
  const TrainingStep ours = build_step(file, options);
  const TrainingStep theirs = build_step(*shipped, options);
  EXPECT_EQ(ours.parameter_count, theirs.parameter_count);
  EXPECT_EQ(ours.forward_flops, theirs.forward_flops);
  EXPECT_EQ(saved_bytes(ours), saved_bytes(theirs));
  EXPECT_EQ(ours.layers.size(), theirs.layers.size());
}

// Counts of the classes with a head, as on the model hub. BERT's count starts from the encoder with
// pooler, 109,482,240. It lacks the pooler (768 x 769), and has the masked-language-model head: 768
// x 769 for the transform, a layer norm (2 x 768) and the decoder's bias (30,522).
INSTANTIATE_TEST_SUITE_P(
    HuggingFace, PublishedModels,
    testing::Values(Published{"llama2_7b", "llama2-7b", 6738415616},
                    Published{"llama3_8b", "llama3-8b", 8030261248},
                    Published{"llama3_2_1b", "llama3.2-1b", 1235814400},
                    Published{"qwen2_5_7b", "qwen2.5-7b", 7615616512},
                    Published{"mistral_7b", "mistral-7b", 7241732096},
                    Published{"mixtral_8x7b", "mixtral-8x7b", 46702792704},
                    Published{"qwen3_0_6b", "", 596049920}, Published{"qwen3_8b", "", 8190735360},
                    Published{"phi3_mini", "", 3821079552}, Published{"gemma2_2b", "", 2614341888},
                    Published{"gemma3_1b", "", 999885952}, Published{"gpt2", "gpt2", 124439808},
                    Published{"bert_base_uncased", "bert-base", 109482240 + 2 * 768 + 30522},
                    Published{"vit_base_patch16_224", "vit_b_16", 86567656}),
    [](const auto& one) { return std::string(one.param.config); });

TEST(HuggingFace, WritesSettingsOfTheFamily) {
  const ImportedModel model = import_hugging_face(config("llama2_7b"), 6738415616);
  EXPECT_EQ(model_text(model),
            "# Imported from llama2_7b.json (LlamaForCausalLM)\n"
            "base: llama\n"
            "title: \"meta-llama/Llama-2-7b-hf\"\n"
            "parameters:\n"
            "  {layers: 32, hidden: 4096, heads: 32, kv_heads: 32, head_size: 128, mlp: 11008, "
            "vocabulary: 32000, sequence: 4096, upcast_loss: 1, tied: 0, biases: 0}\n"
            "published: {parameters: 6738415616, source: \"given when imported\"}\n");
  EXPECT_THAT(model.notes, IsEmpty());
  EXPECT_THAT(model_text(import_hugging_face(config("vit_base_patch16_224"))),
              HasSubstr("input: {image: [3, 224, 224], classes: 1000}\n"));
}

// Each size follows from a field of the file.
TEST(HuggingFace, CountsWhatTheConfigurationSays) {
  const auto decoder = [](std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                          std::int64_t kv_heads, std::int64_t head, std::int64_t mlp,
                          std::int64_t norms, std::int64_t head_norms) {
    return layers * (2 * hidden * heads * head + 2 * hidden * kv_heads * head + 3 * hidden * mlp +
                     norms * hidden + head_norms * head) +
           hidden;
  };
  EXPECT_EQ(decoder(28, 1024, 16, 8, 128, 3072, 2, 2) + 151936 * 1024, 596049920);
  EXPECT_EQ(decoder(36, 4096, 32, 8, 128, 12288, 2, 2) + 2 * std::int64_t{151936} * 4096,
            8190735360);
  EXPECT_EQ(decoder(26, 2304, 8, 4, 256, 9216, 4, 0) + 256000 * 2304, 2614341888);
  EXPECT_EQ(decoder(26, 1152, 4, 1, 256, 6912, 4, 2) + 262144 * 1152, 999885952);
  EXPECT_EQ(decoder(32, 3072, 32, 32, 96, 8192, 2, 0) + 2 * std::int64_t{32064} * 3072, 3821079552);
}

// Gemma differs from a Llama of the same sizes in two more norms per block and in capped logits.
TEST(HuggingFace, GemmaCapsItsLogits) {
  const auto kinds = [](const char* name) {
    const ModelFile file = read_model_text(model_text(import_hugging_face(config(name))), "m");
    StepOptions options;
    options.sequence = 64;
    std::map<std::string, int> count;
    for (const Layer& layer : build_step(file, options).layers) ++count[layer.kind];
    return count;
  };
  auto gemma2 = kinds("gemma2_2b"), gemma3 = kinds("gemma3_1b"), qwen3 = kinds("qwen3_8b");
  EXPECT_EQ(gemma2["soft_cap"], 1);
  EXPECT_EQ(gemma2["rms_norm"], 4 * 26 + 1);
  EXPECT_EQ(gemma3["soft_cap"], 0);
  EXPECT_EQ(gemma3["rms_norm"], 6 * 26 + 1);
  EXPECT_EQ(qwen3["rms_norm"], 4 * 36 + 1);
  EXPECT_EQ(qwen3["gelu"], 0);
  EXPECT_EQ(gemma3["gelu"], 26);
}

TEST(HuggingFace, ALongSequenceIsNotTakenFromTheConfiguration) {
  const ImportedModel model = import_hugging_face(config("qwen2_5_7b"));
  const std::string said =
      "sequence: 4096 of at most 131072 (max_position_embeddings); `input: {sequence: N}` in a "
      "scenario says otherwise";
  EXPECT_THAT(model.notes, ElementsAre(said));
  EXPECT_THAT(model_text(model), HasSubstr("\n# " + said + "\nbase: llama\n"));
  EXPECT_THAT(model_text(model), HasSubstr("sequence: 4096,"));
  EXPECT_THAT(model_text(import_hugging_face(config("llama2_7b"))),
              testing::Not(HasSubstr("# sequence")));
}

// The file with the first `from` replaced by `to`.
std::string changed(const std::string& name, const std::string& from, const std::string& to) {
  std::ifstream file(config(name));
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return test_folder().write("config.json", text.replace(at, from.size(), to));
}

TEST(HuggingFace, AbsentAndNullFieldsHaveTheirDocumentedDefaults) {
  const auto count = [](const std::string& file) {
    return import_hugging_face(file).trained_parameters;
  };
  EXPECT_EQ(count(changed("llama2_7b", "\"num_key_value_heads\": 32,", "")), 6738415616);
  EXPECT_EQ(count(changed("gpt2", "\"n_ctx\": 1024", "\"n_inner\": null")), 124439808);
  // Two labels: the head has 998 rows less.
  EXPECT_EQ(count(changed("vit_base_patch16_224", "\"id2label\"", "\"others\"")),
            86567656 - 998 * 769);
  // Heads of a size of their own, as in Mistral Nemo.
  EXPECT_EQ(count(changed("mistral_7b", "\"vocab", "\"head_dim\": 64, \"vocab")),
            7241732096 - 32 * (2 * 4096 * 2048 + 2 * 4096 * 512));
}

TEST(HuggingFace, AnotherCountThanTheOriginalsIsRefused) {
  try {
    import_hugging_face(config("gpt2"), 124439809);
    ADD_FAILURE() << "another count was taken";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("has 124439808 parameters, not 124439809"));
  }
}

TEST(HuggingFace, SaysWhereTheModelPartsFromTheOriginal) {
  EXPECT_THAT(import_hugging_face(config("mistral_7b")).notes,
              testing::Contains(HasSubstr("sliding window of 4096 tokens")));
  EXPECT_THAT(import_hugging_face(config("gemma2_2b")).notes,
              testing::IsSupersetOf({HasSubstr("sliding window of 4096 tokens"),
                                     HasSubstr("the soft cap of attention's scores")}));
  EXPECT_THAT(import_hugging_face(config("phi3_mini")).notes,
              testing::Contains(HasSubstr("qkv_proj and gate_up_proj")));
  EXPECT_THAT(import_hugging_face(config("mixtral_8x7b")).notes,
              testing::Contains(HasSubstr("all experts get equally many tokens")));
  EXPECT_THAT(import_hugging_face(
                  changed("mistral_7b", "\"sliding_window\": 4096", "\"sliding_window\": null"))
                  .notes,
              ElementsAre(HasSubstr("sequence: 4096")));
  EXPECT_THAT(import_hugging_face(changed("qwen2_5_7b", "\"use_sliding_window\": false",
                                          "\"use_sliding_window\": true"))
                  .notes,
              ElementsAre(HasSubstr("sequence: 4096")));  // the window is as long as the sequence
  EXPECT_THAT(import_hugging_face(changed("gpt2", "gelu_new", "gelu")).notes, IsEmpty());
  EXPECT_THAT(
      import_hugging_face(changed("gpt2", "\"attn_pdrop\": 0.1", "\"attn_pdrop\": 0.0")).notes,
      testing::Contains(HasSubstr("only some dropouts")));
  EXPECT_THAT(import_hugging_face(changed("bert_base_uncased", "\"hidden_dropout_prob\": 0.1",
                                          "\"hidden_dropout_prob\": 0"))
                  .notes,
              ElementsAre(HasSubstr("hidden_dropout_prob is 0")));
  EXPECT_THAT(import_hugging_face(changed("gpt2", "\"GPT2LMHeadModel\"", "")).notes,
              testing::Contains(HasSubstr("taken as GPT2LMHeadModel")));
}

TEST(HuggingFace, RefusesWithThePlace) {
  struct Case {
    const char *file, *from, *to, *error;
  };
  const Case cases[] = {
      {"llama2_7b", "\"llama\"", "\"falcon\"",
       "config.json:13:17: model_type: 'falcon' is not known; allowed: bert, gemma2, gemma3_text, "
       "gpt2, llama, mistral, mixtral, phi3, qwen2, qwen3, vit"},
      {"gemma2_2b", "\"hidden_activation\": \"gelu_pytorch_tanh\"",
       "\"hidden_activation\": \"gelu\"", "hidden_activation: 'gelu' is not"},
      {"qwen3_8b", "\"attention_bias\": false", "\"attention_bias\": true",
       "attention_bias: true is not"},
      {"phi3_mini", "\"resid_pdrop\": 0.0", "\"resid_pdrop\": 0.1", "resid_pdrop: this dropout"},
      {"mixtral_8x7b", "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 9",
       "num_experts_per_tok: 9 of 8 experts"},
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
      import_hugging_face(changed(one.file, one.from, one.to));
      ADD_FAILURE() << one.to << " was taken";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(one.error));
    }
  }
  EXPECT_THROW(import_hugging_face(test_folder().write("config.json", "[1, 2]\n")), ConfigError);
  try {
    import_hugging_face(config("gemma3_4b"));
    ADD_FAILURE() << "a model of images was taken";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("gemma3_4b.json:6:17: model_type: 'gemma3' is not known; its "
                          "`text_config`, in a file of its own, describes"));
  }
}

}  // namespace
}  // namespace lockstep::hugging_face_test
