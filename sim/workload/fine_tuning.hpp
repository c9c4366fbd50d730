// Options of fine-tuning, and the decision for each parameter whether it is trained. Supported are
// low-rank adapters beside frozen linear layers (Hu et al. 2021, "LoRA"), adapters beside quantised
// layers (Dettmers et al. 2023, "QLoRA"), and training of all but named parameters.
// The step builder asks a Freezing about each parameter that an operator declares.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "core/fields.hpp"

namespace lockstep {

// Storage format of frozen linear weights, as in bitsandbytes.
enum class Quantization : std::uint8_t {
  none,
  int8,  // a byte per element, one fp32 scale per row (Linear8bitLt)
  nf4,   // half a byte per element, one fp32 scale per 64 elements (Linear4bit)
};
template <>
struct EnumNames<Quantization> {
  static constexpr std::array names{"none", "int8", "nf4"};
};

// `adapters:` of a scenario: the linear layers that get an adapter, and its rank.
struct AdapterOptions {
  std::int64_t rank = 0;  // features between the two matrices of an adapter
  // Linear layers by the end of their names; "all", if it is the only one = every linear layer of a
  // repeated block.
  std::vector<std::string> targets{"all"};
  double dropout = 0;              // probability of dropout on the adapters' inputs
  std::vector<std::string> whole;  // layers trained with all weights (peft's modules_to_save)
  Location where;
};
template <class Visitor>
void describe(Visitor& v, AdapterOptions& a) {
  v.location(a.where);
  v.field("rank", a.rank, "Features between the two matrices of an adapter.",
          {.min = 1, .max = 1e6, .required = true});
  v.field("targets", a.targets,
          "Linear layers that have an adapter, by the end of their names; all = every one in a "
          "repeated block.",
          {.min_items = 1, .max_items = 1000, .single = true});
  v.field("dropout", a.dropout, "Share of an adapter's inputs that is set to zero.",
          {.min = 0, .max = 1});
  v.field("whole", a.whole,
          "Layers that are trained whole, by the end of their names; the frozen original is kept "
          "(peft's modules_to_save).",
          {.max_items = 1000, .or_empty = true, .single = true});
}

// `frozen:` of a scenario: the parameters that are not trained, and their storage format.
struct FrozenOptions {
  std::vector<std::string> parameters;  // names of parameters or modules; `*` is any text
  bool half = false;                    // stored in half precision under autocast
  Quantization quantization = Quantization::none;
  bool nested = false;  // whether the scales of nf4 are quantised
  Location where;
};
template <class Visitor>
void describe(Visitor& v, FrozenOptions& f) {
  v.location(f.where);
  v.field("parameters", f.parameters,
          "Parameters or modules that are not trained, by name; * is any text. With adapters all "
          "others are frozen.",
          {.max_items = 1000, .or_empty = true, .single = true});
  v.field("half", f.half,
          "Under amp-* frozen parameters are kept in half precision (a base that is loaded in "
          "bf16); trained ones stay fp32.");
  v.field("quantization", f.quantization,
          "Linear layers in repeated blocks are kept in int8 or nf4, as bitsandbytes does.");
  v.field("nested", f.nested, "The scales of nf4 are quantised, too (double quantisation).");
  v.check([&](auto report) {
    if (f.nested && f.quantization != Quantization::nf4) {
      report("nested", "has no effect without nf4", "quantization: nf4");
    }
  });
}

// Both options together. With adapters, only the adapters and the layers in `adapters.whole` are
// trained.
struct FineTuning {
  std::optional<AdapterOptions> adapters;
  FrozenOptions frozen;

  bool is_used() const { return adapters || !frozen.parameters.empty(); }
  // Location and field for an error message.
  const Location& where() const { return adapters ? adapters->where : frozen.where; }
  const char* field() const { return adapters ? "adapters" : "frozen"; }
};
template <class Visitor>
void describe(Visitor& v, FineTuning& f) {
  v.field("adapters", f.adapters,
          "Low-rank adapters (LoRA) are trained beside linear layers; all else is frozen.");
  v.field("frozen", f.frozen,
          "Parameters that are not trained, and the format in which they are kept.");
  v.check([&](auto report) {
    const FrozenOptions& frozen = f.frozen;
    if (f.adapters && !frozen.parameters.empty()) {
      report("frozen.parameters",
             "has no effect beside adapters, which freeze all other parameters",
             "adapters.whole names the layers that are trained");
    }
    if (f.adapters) return;
    if (frozen.half)
      report("frozen.half", "has no effect without adapters", "adapters: {rank: 16}");
    if (frozen.quantization != Quantization::none) {
      report("frozen.quantization", "has no effect without adapters", "adapters: {rank: 16}");
    }
  });
}

// Decides for each parameter and linear layer of a model whether it is trained, adapted or
// quantised, and records which of the scenario's names were found. The builder calls it in the
// order of the layers; check() must be called after the last layer.
class Freezing {
 public:
  explicit Freezing(FineTuning options) : options_(std::move(options)) {}

  bool is_used() const { return options_.is_used(); }
  // Whether this parameter of this layer is trained. Both names are full names.
  bool trains(const std::string& layer, const std::string& parameter);
  // Whether the layer has a trained copy in addition to its frozen original (`adapters.whole`).
  bool whole(const std::string& layer);
  // Whether a linear layer of `in` to `out` features gets an adapter. `block`: its repeated block,
  // "" outside of blocks. Throws ConfigError if the rank is larger than `in` or `out`, or if
  // `adapters.whole` also lists the layer.
  bool adapts(const std::string& layer, const std::string& block, std::int64_t in,
              std::int64_t out);
  // Whether the linear layer's weight is stored quantised: only weights in repeated blocks are, and
  // no adapters. Throws ConfigError if `adapters.whole` lists such a layer.
  bool quantizes(const std::string& layer, const std::string& block);
  // Throws ConfigError if no layer had a name that the scenario gives.
  void check() const;

 private:
  [[noreturn]] void refuse(const char* field, const std::string& message,
                           const std::string& hint) const;
  bool named(const std::vector<std::string>& names, const std::string& layer);
  void check_names(const char* field, const std::vector<std::string>& names,
                   const std::set<std::string>& known) const;

  FineTuning options_;
  std::set<std::string> found_;            // names of the options that some layer has matched
  std::set<std::string> linear_, layers_;  // last components of the layers' names, for hints
};

// Bytes of a quantised matrix of `count` elements in `rows` rows, including its scales.
double quantized_bytes(const FrozenOptions& frozen, std::int64_t rows, std::int64_t count);

}  // namespace lockstep
