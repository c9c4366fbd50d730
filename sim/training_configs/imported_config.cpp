// Finds the program of a config and the files that it refers to, and derives the scenario. A format
// is recognised by keys that only its program has; docs/import-config.md lists them. Import::of()
// shows the steps of an import: read the files, follow references, apply the user's answers,
// interpret, state the scenario, refuse keys.
#include "training_configs/imported_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "core/data.hpp"
#include "core/file_text.hpp"
#include "training_configs/interpretation.hpp"
#include "training_configs/key_table.hpp"
#include "training_configs/shell_script.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// A readable format.
struct Format {
  // The value of --format.
  const char* name;
  // The key table (keys/*.yaml).
  const char* const* keys;
  // Null for DeepSpeed, whose interpreter runs after all others.
  void (*interpret)(Interpreted&);
  // Prepares the tree before the key table is applied; null = the tree stays as it is.
  Node (*prepare)(const Node&, Facts&);
  // Whether the tree is of this format.
  bool (*is_it)(const Node& root);
};

// How many of the keys the map has.
template <class... Keys>
int found(const Node& root, Keys... keys) {
  return (static_cast<int>(root.find(keys).has_value()) + ...);
}

bool has_map(const Node& root, const char* key) {
  const auto node = root.find(key);
  return node && node->kind() == Node::Kind::map;
}

// DeepSpeed's JSON. A file of a program that builds on DeepSpeed may have DeepSpeed's keys beside
// keys of its own; such a file belongs to that program.
bool is_deepspeed(const Node& root) {
  const bool others =
      found(root, "per_device_train_batch_size", "model_name_or_path", "trainer", "_target_") > 0;
  if (has_map(root, "autotuning") || (has_map(root, "fp16") && has_map(root, "optimizer")))
    return true;
  return !others &&
         found(root, "train_micro_batch_size_per_gpu", "zero_optimization", "train_batch_size") > 0;
}
// `Trainer.Config.to_dict()` of torchtitan from 2026 on.
bool is_torchtitan_json(const Node& root) {
  return has_map(root, "model_spec");
}
// torchtitan's TOML: [training] with [job], [parallelism] or [metrics].
bool is_torchtitan(const Node& root) {
  return has_map(root, "training") &&
         (has_map(root, "job") || has_map(root, "parallelism") || has_map(root, "metrics"));
}
bool is_nanotron(const Node& root) {
  return has_map(root, "tokens") && has_map(root, "parallelism");
}
// A test recipe of Megatron-LM (MODEL_ARGS), or a script's options by their names.
bool is_megatron(const Node& root) {
  return root.find("MODEL_ARGS") ||
         found(root, "micro_batch_size", "num_layers", "hidden_size", "seq_length",
               "tensor_model_parallel_size", "hybrid_layer_pattern") >= 3;
}
// Composer and LLM Foundry; files of MCLI have the same keys below `parameters`. Axolotl and
// accelerate also have fsdp_config, but they have `base_model` or `distributed_type`.
bool is_composer(const Node& root) {
  const auto inner = root.find("parameters");
  if (inner && inner->kind() == Node::Kind::map && is_composer(*inner)) return true;
  return found(root, "max_duration", "global_train_batch_size", "device_train_microbatch_size",
               "fsdp_config") >= 2 &&
         found(root, "base_model", "distributed_type") == 0;
}
bool is_accelerate(const Node& root) {
  return found(root, "distributed_type", "compute_environment") > 0;
}
bool is_axolotl(const Node& root) {
  return root.find("base_model").has_value();
}
// `dist_config` and `init_config` belong to the layout of version 1.
bool is_llamafactory(const Node& root) {
  return found(root, "finetuning_type", "cutoff_len") > 0 ||
         (found(root, "dist_config", "init_config") > 0);
}
bool is_litgpt(const Node& root) {
  return has_map(root, "train") && found(root, "checkpoint_dir", "model_name", "out_dir") > 0;
}
// The Trainer's keys are common words, so a file must have at least two such keys.
bool is_trainer(const Node& root) {
  return found(root, "model_name_or_path", "per_device_train_batch_size",
               "gradient_accumulation_steps", "fsdp", "fsdp_config", "learning_rate", "model",
               "num_train_epochs") >= 2;
}
// A whole config of Lightning, or a fragment that is a Hydra group.
bool is_lightning(const Node& root) {
  return found(root, "trainer", "strategy", "_target_", "class_path", "seed_everything",
               "accelerator") > 0;
}

// The first format that matches is taken. The order matters, because a file may also have keys of
// formats below.
const std::array formats{
    Format{"torchtitan-json", &torchtitan_json_keys, interpret_torchtitan, with_torchtitan_sizes,
           is_torchtitan_json},
    Format{"megatron", &megatron_keys, interpret_megatron, megatron_tree, is_megatron},
    Format{"nanotron", &nanotron_keys, interpret_nanotron, nullptr, is_nanotron},
    Format{"torchtitan", &torchtitan_toml_keys, interpret_torchtitan, nullptr, is_torchtitan},
    Format{"accelerate", &accelerate_keys, interpret_accelerate, nullptr, is_accelerate},
    Format{"axolotl", &axolotl_keys, interpret_axolotl, nullptr, is_axolotl},
    Format{"llamafactory", &llamafactory_keys, interpret_llamafactory, nullptr, is_llamafactory},
    Format{"composer", &composer_keys, interpret_composer, composer_tree, is_composer},
    Format{"litgpt", &litgpt_keys, interpret_litgpt, nullptr, is_litgpt},
    Format{"deepspeed", &deepspeed_keys, nullptr, nullptr, is_deepspeed},
    Format{"lightning", &lightning_keys, interpret_lightning, lightning_tree, is_lightning},
    Format{"trainer", &trainer_keys, interpret_trainer, nullptr, is_trainer},
};

// The key table of a format, parsed once. LLaMA-Factory and Axolotl also read the Trainer's keys,
// so rules for these are added unless the table has its own rule for a key.
const KeyTable& table_of(const Format& format) {
  static std::map<std::string, KeyTable> tables;
  const auto [entry, fresh] = tables.try_emplace(format.name);
  if (!fresh) return entry->second;
  entry->second = key_table(*format.keys, std::string(format.name) + " keys");
  if (std::string_view(format.name) != "axolotl" && std::string_view(format.name) != "llamafactory")
    return entry->second;
  const KeyTable trainer = key_table(trainer_keys, "trainer keys");
  auto& rules = entry->second.rules;
  for (const ConfigKeyRule& rule : trainer.rules) {
    const bool there = std::any_of(rules.begin(), rules.end(), [&](const ConfigKeyRule& own) {
      return own.pattern == rule.pattern;
    });
    if (!there) rules.push_back(rule);
  }
  return entry->second;
}

// The format that the user names, or, if the user names none, the format that the keys show. Throws
// ConfigError if there is no such format.
const Format& format_of(const Node& root, const std::string& path, const std::string& wanted) {
  std::vector<std::string> names;
  for (const Format& format : formats) {
    names.emplace_back(format.name);
    if (wanted.empty() ? format.is_it(root) : wanted == format.name) return format;
  }
  if (!wanted.empty())
    throw file_error("", "--format", in_quotes(wanted) + " is no format",
                     allowed_hint(wanted, names));
  throw file_error(path, "", "no training program that Lockstep knows has such keys",
                   fmt::format("--format says which: {}", fmt::join(names, ", ")));
}

// Whether the file is a launch script, by its ending or its first line.
bool is_script(const std::string& path, const std::string& text) {
  for (const char* ending : {".sh", ".sbatch", ".slurm", ".bash"}) {
    if (path.ends_with(ending)) return true;
  }
  return text.starts_with("#!") && text.substr(0, text.find('\n')).find("sh") != std::string::npos;
}

// One import. The facts of all files go into one store, so that contradictions between files are
// found.
class Import {
 public:
  Import(const ConfigAnswers& answers) : answers_(answers), run_{facts_, config_.notes} {}

  ImportedConfig of(const std::vector<std::string>& files) {
    for (const std::string& file : files) read(file, "");
    // At most four references are followed, because files may refer to each other.
    for (std::size_t i = 0; i < 4 && follow(); ++i) {
    }
    apply_answers();
    interpret();
    collect_reasons();
    state_scenario(facts_, answers_, config_);
    refuse_or_leave_out();
    const auto& assumed = facts_.assumptions();
    config_.assumptions.insert(config_.assumptions.end(), assumed.begin(), assumed.end());
    return std::move(config_);
  }

 private:
  // Reads a file of a known or unknown format. A launch script becomes the map of the options that
  // it passes.
  void read(const std::string& file, const std::string& format) {
    const std::string text = file_text(file, most_of_a_description);
    if (!is_script(file, text)) return document(config_document(text, file), file, format);
    LaunchScript script = launch_script(text, file);
    for (const std::string& note : script.notes) config_.notes.push_back(file + ": " + note);
    documents_ = script.documents;
    document({options_of(script, file), {}}, file, format);
  }

  // States the keys of a tree as facts. `wanted`: the format that the reference to the file
  // requires; "" = the user's format for the first file, otherwise recognised by the keys.
  void document(const ConfigDocument& document, const std::string& file,
                const std::string& wanted) {
    const std::string asked = wanted.empty() && config_.files.empty() ? answers_.format : wanted;
    const Format& format = format_of(document.root, file, asked);
    if (wanted == "deepspeed" && !is_deepspeed(document.root))
      throw file_error(file, "", "is no config of DeepSpeed", "another file points to it as one");
    config_.files.push_back(file);
    if (config_.format.empty()) config_.format = table_of(format).format;
    for (const Diagnostic& note : document.notes) config_.notes.push_back(to_string(note));
    const Node root = format.prepare ? format.prepare(document.root, facts_) : document.root;
    state_keys(table_of(format), root, "", facts_, config_.keys);
    used_.push_back(&format);
  }

  // Handles one reference that a file states. Returns true if there was one.
  bool follow() {
    for (const char* name : {"follow.deepspeed", "follow.fsdp"}) {
      if (!facts_.has(name)) continue;
      const Fact fact = *facts_.find(name);
      facts_.erase(name);
      if (is_idle(fact) || takes_name(fact)) return true;
      follow(fact, std::string(name) == "follow.deepspeed" ? "deepspeed" : "trainer");
      return true;
    }
    return false;
  }

  // Whether a reference has no effect, because accelerate reads its section for DeepSpeed only if
  // the kind of training is DeepSpeed. Throws ConfigError, as accelerate does, if the section has
  // other keys beside the reference.
  bool is_idle(const Fact& fact) {
    if (!fact.key.starts_with("deepspeed_config.")) return false;
    if (facts_.word("accelerate.kind", "") != "deepspeed") return true;
    for (const KeyAccount& account : config_.keys) {
      const bool beside = account.key.starts_with("deepspeed_config.") &&
                          account.fate == KeyFate::mapped && account.fact != "follow.deepspeed" &&
                          account.where.file == fact.where.file;
      if (beside)
        throw ConfigError(Diagnostic{
            account.where, account.key,
            "contradicts deepspeed_config_file: accelerate refuses keys beside that file",
            "keep the file or the keys"});
    }
    return false;
  }

  // Handles a name that stands for a file built into the program (ms-swift: zero2, zero3_offload).
  // Returns false if the reference is no such name.
  bool takes_name(const Fact& fact) {
    const std::string word = lower_case(fact.value);
    const bool named = word.starts_with("zero") && word.size() > 4 &&
                       word.find_first_of("./") == std::string::npos;
    if (!named) return false;
    facts_.set("zero.level", {word.substr(4, 1), fact.where, fact.key});
    if (word.find("offload") != std::string::npos) {
      facts_.set("offload.optimizer", {"cpu", fact.where, fact.key});
      if (word[4] == '3') facts_.set("offload.parameters", {"cpu", fact.where, fact.key});
    }
    config_.notes.push_back(fmt::format(
        "{}: {} is taken as the program's built-in file of that name", fact.key, fact.value));
    return true;
  }

  // Reads the referenced file. If the user named a file of this format, the reference is ignored.
  // If the file does not exist, a heredoc of the launch script takes its place.
  void follow(const Fact& fact, const std::string& format) {
    const auto given = [&](const Format* used) { return format == used->name; };
    // The user named a file of this format.
    if (config_.files.size() > 1 && std::any_of(used_.begin(), used_.end(), given)) return;
    const std::string file = located(fact);
    if (!file.empty()) {
      if (std::find(read_.begin(), read_.end(), file) != read_.end())
        throw ConfigError(
            Diagnostic{fact.where, fact.key, "the file points to one that was read before", ""});
      read_.push_back(file);
      config_.notes.push_back(fmt::format("{} is followed: {}", fact.key, file));
      return read(file, format);
    }
    for (const auto& [line, text] : documents_) {
      if (text.find('{') == std::string::npos) continue;
      config_.notes.push_back(
          fmt::format("{} is the text that the script writes in {}", fact.key, line));
      return document(config_document(text, fact.where.file + " (" + line + ").json"),
                      fact.where.file + " " + line, format);
    }
    throw ConfigError(Diagnostic{fact.where, fact.key,
                                 fmt::format("the file {} is not there", in_quotes(fact.value)),
                                 "name it beside this one"});
  }

  // The path of a referenced file, relative to the working directory; "" if there is none. It is
  // searched from the config's folder, from the folders above that up to the working directory, and
  // from the working directory. It must lie below the config's folder or the working directory,
  // because an untrusted config must not reach other files.
  static std::string located(const Fact& fact) {
    std::error_code error;
    const fs::path wanted(fact.value);
    const fs::path here = fs::weakly_canonical(fs::current_path(error), error);
    const fs::path home =
        fs::weakly_canonical(fs::absolute(fact.where.file, error).parent_path(), error);
    std::vector<fs::path> roots{home};
    const auto inside = [](const fs::path& path, const fs::path& root) {
      return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
    };
    for (fs::path above = home; inside(above, here) && above != above.parent_path();
         above = above.parent_path())
      roots.push_back(above);
    roots.push_back(here);
    for (const fs::path& root : roots) {
      const fs::path path = fs::weakly_canonical(root / wanted, error);
      const bool allowed = inside(path, home) || inside(path, here);
      if (allowed && fs::is_regular_file(path, error))
        return fs::relative(path, here, error).string();
    }
    return "";
  }

  // Options of the command line replace values of the files.
  void apply_answers() {
    const auto answer = [&](const char* fact, const std::optional<std::int64_t>& value,
                            const char* option) {
      if (value) facts_.replace(fact, {std::to_string(*value), {"", 0, 0}, option});
    };
    answer("gpus", answers_.gpus, "--gpus");
    answer("sequence", answers_.sequence, "--sequence");
    answer("micro", answers_.micro, "--micro");
    answer("global", answers_.global, "--global");
  }

  // If fp16 or bf16 of DeepSpeed is "auto", the precision is open, and the question to the user
  // names this key.
  void leave_open() {
    for (const KeyAccount& account : config_.keys) {
      const bool half = account.fact == "deepspeed.bf16" || account.fact == "deepspeed.fp16";
      if (account.fate == KeyFate::asked && half)
        facts_.replace("undecided.precision", {"auto", account.where, account.key});
    }
  }

  // Applies each program's rules in the order of the files, then the rules of the strategy, then
  // the rules that all programs share.
  void interpret() {
    leave_open();
    for (const Format* format : used_) {
      if (format->interpret) format->interpret(run_);
    }
    const std::string kind = facts_.word("kind", "");
    const bool deepspeed = kind == "deepspeed" || facts_.has("zero.level") ||
                           std::any_of(used_.begin(), used_.end(), [](const Format* used) {
                             return std::string_view(used->name) == "deepspeed";
                           });
    if (!facts_.has("strategy")) {
      if (kind == "megatron")
        interpret_megatron(run_);
      else if (deepspeed)
        interpret_deepspeed(run_);
      else if (kind == "fsdp")
        interpret_fsdp(run_);
      else if (!kind.empty())
        facts_.replace("strategy", {"ddp", {}, ""});
    }
    interpret_adapters(run_);
    interpret_optimizer(run_);
    interpret_precision(run_);
  }

  // Copies the reasons that interpreters found (`refused.*`, `approximated.*`) to the accounts of
  // their keys.
  void collect_reasons() {
    for (const auto& [prefix, fate] :
         {std::pair{"refused.", KeyFate::refused}, {"approximated.", KeyFate::approximated}}) {
      for (const std::string& name : facts_.names(prefix)) {
        const Fact& fact = *facts_.find(name);
        for (KeyAccount& account : config_.keys) {
          if (account.key != fact.key || account.where.line != fact.where.line) continue;
          account.fate = fate;
          account.meaning = fact.value;
          account.fact.clear();
        }
      }
    }
  }

  bool is_left_out(const std::string& key) const {
    const auto& names = answers_.leave_out;
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return name == key || name == "all"; });
  }

  // Throws ConfigError with all refused keys that the user does not leave out.
  void refuse_or_leave_out() {
    Diagnostics refused;
    std::set<std::string> told;
    for (const KeyAccount& account : config_.keys) {
      if (account.fate != KeyFate::refused || is_left_out(account.key)) continue;
      // The elements of a list have the same key, so only the first is reported.
      if (!told.insert(account.key).second) continue;
      refused.add({account.where, account.key, account.meaning,
                   fmt::format("--leave-out {} goes on without it", account.key)});
    }
    refused.throw_if_any();
  }

  const ConfigAnswers& answers_;
  Facts facts_;
  ImportedConfig config_;
  Interpreted run_;
  // Formats of the files, in order.
  std::vector<const Format*> used_;
  // Files to which references led.
  std::vector<std::string> read_;
  // Heredocs of the launch script, by line.
  std::map<std::string, std::string> documents_;
};

}  // namespace

ImportedConfig imported_config(const std::vector<std::string>& files,
                               const ConfigAnswers& answers) {
  return Import(answers).of(files);
}

}  // namespace lockstep
