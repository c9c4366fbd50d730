// Maps each architecture's config.json to the parameters of a shipped family. Each read_ function
// follows one configuration_*.py of transformers. Fields with a size become parameters of the
// family. Fields that change the network are refused unless they have the value that the family
// describes. Notes list differences in cost that the family does not describe.
//
//   num_hidden_layers -> layers     hidden_size -> hidden       num_attention_heads -> heads
//   num_key_value_heads -> kv_heads head_dim -> head_size       intermediate_size -> mlp
//   vocab_size -> vocabulary        tie_word_embeddings -> tied max_position_embeddings -> sequence
#include "imports/hugging_face.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/file_text.hpp"
#include "imports/config_fields.hpp"
#include "workload/model.hpp"
#include "workload/model_file.hpp"

namespace lockstep {
namespace {

// An architecture: its model_type, the transformers class whose head the shipped family describes,
// and the function that reads its fields.
struct Family {
  std::string type;
  std::string architecture;
  void (*read)(ConfigFields& config, ImportedModel& model);
};

// Refuses a field whose text, flag or number is not the one that the family describes. An absent
// field is accepted.
void must_be(ConfigFields& config, const std::string& name, const std::string& word) {
  const std::string value = config.word(name, word);
  if (value != word)
    config.wrong(name, fmt::format("{} is not in the model's description", in_quotes(value)),
                 "allowed: " + word);
}

void must_be_flag(ConfigFields& config, const std::string& name, bool value) {
  if (config.flag(name, value) != value)
    config.wrong(name, fmt::format("{} is not in the model's description", !value),
                 fmt::format("allowed: {}", value));
}

void must_be_zero(ConfigFields& config, const std::string& name) {
  if (config.number(name, 0) != 0)
    config.wrong(name, "this dropout is not in the model's description", "allowed: 0");
}

// Refuses the field `name` if `part` does not divide `whole`. `divisor` names `whole` in the error.
void must_divide(ConfigFields& config, const std::string& name, std::int64_t part,
                 const std::string& divisor, std::int64_t whole) {
  if (whole % part != 0)
    config.wrong(name, fmt::format("{} does not divide {}, {}", part, divisor, whole));
}

// Causal language models of Hugging Face compute the loss on an fp32 copy of the logits
// (transformers, loss/loss_utils.py, ForCausalLMLoss).
constexpr std::pair<const char*, std::int64_t> upcast_loss{"upcast_loss", 1};

// max_position_embeddings, but at most 4096, for models with rotary positions. Such models accept
// long sequences, but are seldom trained with the longest.
std::int64_t trained_sequence(ConfigFields& config, ImportedModel& model) {
  constexpr std::int64_t usual = 4096;
  const std::int64_t longest = config.size("max_position_embeddings");
  if (longest <= usual) return longest;
  model.comment = fmt::format(
      "sequence: {} of at most {} (max_position_embeddings); `input: {{sequence: N}}` in a "
      "scenario "
      "says otherwise",
      usual, longest);
  model.notes.push_back(model.comment);
  return usual;
}

// The common fields of decoders with rotary positions and grouped-query attention. The size of a
// head is `head_dim`. If that is absent, it is the architecture's usual size, or, if there is none,
// hidden_size / num_attention_heads, which must be a whole number.
void read_decoder(ConfigFields& config, ImportedModel& model, std::int64_t kv_heads,
                  std::optional<std::int64_t> usual_head_size = {}) {
  const std::int64_t hidden = config.size("hidden_size");
  const std::int64_t heads = config.size("num_attention_heads");
  const std::int64_t head_size =
      config.size("head_dim", usual_head_size.value_or(std::max<std::int64_t>(1, hidden / heads)));
  if (!config.has("head_dim") && !usual_head_size)
    must_divide(config, "num_attention_heads", heads, "hidden_size", hidden);
  must_divide(config, "num_key_value_heads", kv_heads, "num_attention_heads", heads);
  must_be_zero(config, "attention_dropout");
  model.parameters = {{"layers", config.size("num_hidden_layers")},
                      {"hidden", hidden},
                      {"heads", heads},
                      {"kv_heads", kv_heads},
                      {"head_size", head_size},
                      {"mlp", config.size("intermediate_size")},
                      {"vocabulary", config.size("vocab_size")},
                      {"sequence", trained_sequence(config, model)},
                      upcast_loss};
}

// Reads decoders of the family `llama`: SiLU-gated MLP and RMS norm. `biases`: query, key and value
// have biases; other layers never have.
void read_llama_like(ConfigFields& config, ImportedModel& model, std::int64_t kv_heads,
                     bool biases) {
  read_decoder(config, model, kv_heads);
  must_be(config, "hidden_act", "silu");
  model.base = "llama";
  model.parameters.emplace_back("tied", config.flag("tie_word_embeddings", false));
  model.parameters.emplace_back("biases", biases);
}

// configuration_llama.py: num_key_value_heads is num_attention_heads if absent (multi-head
// attention).
void read_llama(ConfigFields& config, ImportedModel& model) {
  must_be_flag(config, "attention_bias", false);
  must_be_flag(config, "mlp_bias", false);
  const std::int64_t heads = config.size("num_attention_heads", 1);
  read_llama_like(config, model, config.size("num_key_value_heads", heads), false);
}

// sliding_window: attention only over the last N tokens. The family computes attention over the
// whole sequence, which costs more if the window is shorter.
void note_window(ConfigFields& config, ImportedModel& model) {
  const std::int64_t window = config.size("sliding_window", 0);
  if (window > 0 && window < config.size("max_position_embeddings", 1))
    model.notes.push_back(
        fmt::format("attention is modelled over the whole sequence, not over a sliding window of "
                    "{} tokens",
                    window));
}

// configuration_mistral.py.
void read_mistral(ConfigFields& config, ImportedModel& model) {
  read_llama_like(config, model, config.size("num_key_value_heads"), false);
  note_window(config, model);
}

// configuration_qwen2.py (Qwen 2 and 2.5): query, key and value have biases. sliding_window has an
// effect only with use_sliding_window.
void read_qwen2(ConfigFields& config, ImportedModel& model) {
  read_llama_like(config, model, config.size("num_key_value_heads"), true);
  if (config.flag("use_sliding_window", false)) note_window(config, model);
}

// configuration_qwen3.py: no biases, heads of 128, and an RMS norm over each head of query and key.
void read_qwen3(ConfigFields& config, ImportedModel& model) {
  must_be_flag(config, "attention_bias", false);
  read_decoder(config, model, config.size("num_key_value_heads"), 128);
  must_be(config, "hidden_act", "silu");
  model.base = "llama";
  model.parameters.emplace_back("tied", config.flag("tie_word_embeddings", false));
  model.parameters.emplace_back("head_norm", 1);
  if (config.flag("use_sliding_window", false)) note_window(config, model);
}

// configuration_phi3.py: Llama's network with packed projections. The family describes them as
// separate products, which need slightly more kernel launches.
void read_phi3(ConfigFields& config, ImportedModel& model) {
  for (const char* name : {"resid_pdrop", "embd_pdrop"}) must_be_zero(config, name);
  const std::int64_t heads = config.size("num_attention_heads", 1);
  read_llama_like(config, model, config.size("num_key_value_heads", heads), false);
  note_window(config, model);
  model.notes.push_back(
      "the packed projections qkv_proj and gate_up_proj are modelled as products of their own");
}

// configuration_mixtral.py: each block has num_local_experts experts, and each token passes through
// num_experts_per_tok experts.
void read_mixtral(ConfigFields& config, ImportedModel& model) {
  read_decoder(config, model, config.size("num_key_value_heads"));
  must_be(config, "hidden_act", "silu");
  must_be_flag(config, "tie_word_embeddings", false);
  const std::int64_t experts = config.size("num_local_experts"),
                     top = config.size("num_experts_per_tok");
  if (top > experts)
    config.wrong("num_experts_per_tok", fmt::format("{} of {} experts", top, experts));
  model.base = "mixtral";
  model.parameters.emplace_back("experts", experts);
  model.parameters.emplace_back("top", top);
  model.notes.push_back("all experts get equally many tokens, and run one after the other");
  note_window(config, model);
}

// configuration_gemma2.py and configuration_gemma3.py (`head_norm`: Gemma 3). In Gemma 2, soft caps
// are on by default: 30 for the logits and 50 for the attention scores. Gemma 3 has no soft caps by
// default, but an RMS norm over each head.
void read_gemma(ConfigFields& config, ImportedModel& model, bool head_norm) {
  read_decoder(config, model, config.size("num_key_value_heads"), 256);
  must_be(config, "hidden_activation", "gelu_pytorch_tanh");
  must_be_flag(config, "attention_bias", false);
  must_be_flag(config, "tie_word_embeddings", true);
  must_be_flag(config, "use_bidirectional_attention", false);
  model.base = "gemma";
  model.parameters.emplace_back("head_norm", head_norm);
  model.parameters.emplace_back("soft_cap",
                                config.number("final_logit_softcapping", head_norm ? 0 : 30) > 0);
  if (config.number("attn_logit_softcapping", head_norm ? 0 : 50) > 0)
    model.notes.push_back("the soft cap of attention's scores is not modelled");
  note_window(config, model);
}

void read_gemma2(ConfigFields& config, ImportedModel& model) {
  read_gemma(config, model, false);
}

void read_gemma3(ConfigFields& config, ImportedModel& model) {
  read_gemma(config, model, true);
}

// configuration_gpt2.py, whose fields have other names: n_embd, n_head, n_layer, n_positions, and
// n_inner for the MLP (4 x n_embd if absent). The family has one switch for all dropouts.
void read_gpt2(ConfigFields& config, ImportedModel& model) {
  const std::int64_t hidden = config.size("n_embd");
  const std::int64_t heads = config.size("n_head");
  must_divide(config, "n_head", heads, "n_embd", hidden);
  must_be_flag(config, "add_cross_attention", false);
  const std::string activation = config.word("activation_function", "gelu_new");
  if (activation == "gelu_new")
    model.notes.push_back(
        "gelu_new, which Hugging Face computes in several kernels, is modelled as one GELU kernel");
  else if (activation != "gelu" && activation != "gelu_pytorch_tanh")
    config.wrong("activation_function",
                 in_quotes(activation) + " is not in the model's description",
                 allowed_hint(activation, {"gelu", "gelu_new", "gelu_pytorch_tanh"}));
  int dropouts = 0;
  for (const char* name : {"resid_pdrop", "embd_pdrop", "attn_pdrop"})
    dropouts += config.number(name, 0.1) > 0;
  if (dropouts == 1 || dropouts == 2)
    model.notes.push_back("only some dropouts are 0; all are modelled as active");
  model.base = "gpt";
  model.parameters = {{"layers", config.size("n_layer")},
                      {"hidden", hidden},
                      {"heads", heads},
                      {"mlp", config.size("n_inner", 4 * hidden)},
                      {"vocabulary", config.size("vocab_size")},
                      {"sequence", config.size("n_positions")},
                      {"tied", config.flag("tie_word_embeddings", true)},
                      {"dropout", dropouts > 0},
                      upcast_loss};
}

// configuration_bert.py: an encoder with learned positions and two token types. The head shares its
// weights with the word embeddings.
void read_bert(ConfigFields& config, ImportedModel& model) {
  const std::int64_t hidden = config.size("hidden_size");
  const std::int64_t heads = config.size("num_attention_heads");
  must_divide(config, "num_attention_heads", heads, "hidden_size", hidden);
  must_be(config, "hidden_act", "gelu");
  must_be(config, "position_embedding_type", "absolute");
  must_be_flag(config, "is_decoder", false);
  must_be_flag(config, "add_cross_attention", false);
  must_be_flag(config, "tie_word_embeddings", true);
  if (config.size("type_vocab_size", 2) != 2)
    config.wrong("type_vocab_size", "the model's description has two token types", "allowed: 2");
  for (const char* name : {"hidden_dropout_prob", "attention_probs_dropout_prob"})
    if (config.number(name, 0.1) == 0)
      model.notes.push_back(fmt::format("{} is 0, the dropout is modelled as active", name));
  model.base = "bert";
  model.parameters = {{"layers", config.size("num_hidden_layers")},
                      {"hidden", hidden},
                      {"heads", heads},
                      {"mlp", config.size("intermediate_size")},
                      {"vocabulary", config.size("vocab_size")},
                      {"sequence", config.size("max_position_embeddings")}};
}

// configuration_vit.py. The number of classes is the number of labels in id2label.
void read_vit(ConfigFields& config, ImportedModel& model) {
  const std::int64_t hidden = config.size("hidden_size");
  const std::int64_t heads = config.size("num_attention_heads");
  const std::int64_t side = config.size("image_size");
  must_divide(config, "num_attention_heads", heads, "hidden_size", hidden);
  must_be(config, "hidden_act", "gelu");
  must_be_flag(config, "qkv_bias", true);
  must_be_zero(config, "hidden_dropout_prob");
  must_be_zero(config, "attention_probs_dropout_prob");
  model.base = "vit";
  model.parameters = {{"layers", config.size("num_hidden_layers")},
                      {"hidden", hidden},
                      {"heads", heads},
                      {"mlp", config.size("intermediate_size")},
                      {"patch", config.size("patch_size")}};
  model.image = {config.size("num_channels", 3), side, side};
  model.classes = config.entries("id2label", config.size("num_labels", 2));
  model.notes.push_back(
      "query, key and value are modelled as one packed projection, as torchvision has it");
}

// All supported architectures, sorted by model_type.
const std::vector<Family>& families() {
  static const std::vector<Family> all{{"bert", "BertForMaskedLM", read_bert},
                                       {"gemma2", "Gemma2ForCausalLM", read_gemma2},
                                       {"gemma3_text", "Gemma3ForCausalLM", read_gemma3},
                                       {"gpt2", "GPT2LMHeadModel", read_gpt2},
                                       {"llama", "LlamaForCausalLM", read_llama},
                                       {"mistral", "MistralForCausalLM", read_mistral},
                                       {"mixtral", "MixtralForCausalLM", read_mixtral},
                                       {"phi3", "Phi3ForCausalLM", read_phi3},
                                       {"qwen2", "Qwen2ForCausalLM", read_qwen2},
                                       {"qwen3", "Qwen3ForCausalLM", read_qwen3},
                                       {"vit", "ViTForImageClassification", read_vit}};
  return all;
}

// The architecture of a config's model_type. In multimodal configs the language model is in
// `text_config`; the error says so.
const Family& family_of(ConfigFields& config) {
  const std::string type = config.required_word("model_type");
  config.finish();
  const auto& all = families();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Family& family) { return family.type == type; });
  if (found != all.end()) return *found;
  std::vector<std::string> known;
  for (const Family& family : all) known.push_back(family.type);
  config.wrong("model_type", in_quotes(type) + " is not known",
               config.has("text_config")
                   ? "its `text_config`, in a file of its own, describes the language model"
                   : allowed_hint(type, known));
  config.finish();
  // finish() has thrown.
  return all.front();
}

// Refuses a config whose `architectures`, the class of the checkpoint, is another class than the
// family's, because its head (for example a classifier) has other layers.
void check_architecture(ConfigFields& config, const Family& family, ImportedModel& model) {
  const std::vector<std::string> classes = config.words("architectures");
  if (classes.empty())
    model.notes.push_back("`architectures` is absent, taken as " + family.architecture);
  else if (std::find(classes.begin(), classes.end(), family.architecture) == classes.end())
    config.wrong("architectures", in_quotes(classes.front()) + " has another head",
                 "allowed: " + family.architecture);
}

// Parses a file that begins with `{`, as a JSON map does. The first character is checked before the
// size, so that a large ONNX model leads to the error about ONNX.
Node read_config(const std::string& file) {
  const std::string text = file_text(file, most_of_a_recording);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '{')
    throw file_error(file, "", "is no config.json of Hugging Face",
                     "python -m lockstep.import_model takes ONNX models and PyTorch modules");
  if (text.size() > most_of_a_description) refuse_too_large(file, most_of_a_description);
  return Node::parse_text(text, file);
}

// The text in double quotes, as YAML. Control characters become spaces.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return result + '"';
}

// The text on one line: control characters become spaces, so that a newline cannot end the comment
// in which the text stands.
std::string on_one_line(std::string text) {
  for (char& c : text) c = static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  return text;
}

// Reads the model back from its text and counts its parameters, which also proves that the text is
// valid. Throws ConfigError if the count is not the published one.
void count_parameters(ImportedModel& model) {
  const ModelFile file = read_model_text(model_text(model), model.origin + " as a model file");
  model.trained_parameters = summarise(file).parameters;
  if (model.published && *model.published != model.trained_parameters)
    throw file_error("", "--parameters",
                     fmt::format("{} has {} parameters, not {}", model.origin,
                                 model.trained_parameters, *model.published),
                     "does the checkpoint have another head, or tied embeddings?");
}

}  // namespace

ImportedModel import_hugging_face(const std::string& file, std::optional<std::int64_t> published) {
  ConfigFields config(read_config(file));
  const Family& family = family_of(config);
  ImportedModel model;
  model.published = published;
  model.origin = fmt::format("{} ({})", file.substr(file.rfind('/') + 1), family.architecture);
  model.title = config.word("_name_or_path", "");
  if (model.title.empty()) model.title = family.architecture;
  check_architecture(config, family, model);
  if (config.has("quantization_config"))
    config.wrong("quantization_config", "quantised weights are not modelled",
                 "import the config.json of the original");
  family.read(config, model);
  config.finish();
  count_parameters(model);
  return model;
}

std::string model_text(const ImportedModel& model) {
  std::string text = fmt::format("# Imported from {}\n", on_one_line(model.origin));
  if (!model.comment.empty()) text += fmt::format("# {}\n", model.comment);
  text += fmt::format("base: {}\ntitle: {}\n", model.base, quoted(model.title));
  std::vector<std::string> settings;
  for (const auto& [name, value] : model.parameters)
    settings.push_back(fmt::format("{}: {}", name, value));
  text += fmt::format("parameters:\n  {{{}}}\n", fmt::join(settings, ", "));
  if (!model.image.empty())
    text += fmt::format("input: {{image: [{}], classes: {}}}\n", fmt::join(model.image, ", "),
                        model.classes);
  if (model.published)
    text += fmt::format("published: {{parameters: {}, source: \"given when imported\"}}\n",
                        *model.published);
  return text;
}

}  // namespace lockstep
