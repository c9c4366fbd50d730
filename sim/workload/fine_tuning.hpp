// The part of a model that is trained: low-rank adapters beside frozen linear layers (Hu et al. 2021, "LoRA"), over
// quantised weights (Dettmers et al. 2023, "QLoRA"), or all but the parameters that are named.
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

// How bitsandbytes keeps the weights of linear layers.
enum class Quantization : std::uint8_t {
  none,
  int8,  // a byte per element, an fp32 scale per row (Linear8bitLt)
  nf4,   // half a byte per element, an fp32 scale per 64 elements (Linear4bit)
};
template <>
struct EnumNames<Quantization> {
  static constexpr std::array names{"none", "int8", "nf4"};
};

struct AdapterOptions {
  std::int64_t rank = 0;
  // Linear layers by the end of their names; "all" = every one in a repeated block.
  std::vector<std::string> targets{"all"};
  double dropout = 0;
  std::vector<std::string> whole;  // layers that are trained as they are
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

struct FrozenOptions {
  std::vector<std::string> parameters;  // or modules, by name; `*` is any text
  bool half = false;
  Quantization quantization = Quantization::none;
  bool nested = false;
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

struct FineTuning {
  std::optional<AdapterOptions> adapters;
  FrozenOptions frozen;

  bool is_used() const { return adapters || !frozen.parameters.empty(); }
  // Place and field that a refusal names.
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

// Says of each parameter and linear layer of a model what becomes of it, and remembers which names
// were found.
class Freezing {
 public:
  explicit Freezing(FineTuning options) : options_(std::move(options)) {}

  bool is_used() const { return options_.is_used(); }
  bool trains(const std::string& layer, const std::string& parameter);
  // Whether the layer is trained whole beside its frozen original.
  bool whole(const std::string& layer);
  // A linear layer of `in` to `out` features. Throws ConfigError when the rank does not fit.
  bool adapts(const std::string& layer, const std::string& block, std::int64_t in,
              std::int64_t out);
  // Throws ConfigError when a weight that is trained whole would be quantised.
  bool quantizes(const std::string& layer, const std::string& block);
  // Throws ConfigError when a name was not found.
  void check() const;

 private:
  [[noreturn]] void refuse(const char* field, const std::string& message,
                           const std::string& hint) const;
  bool named(const std::vector<std::string>& names, const std::string& layer);
  void check_names(const char* field, const std::vector<std::string>& names,
                   const std::set<std::string>& known) const;

  FineTuning options_;
  std::set<std::string> found_;            // of the names that the options give
  std::set<std::string> linear_, layers_;  // the last parts of the model's names
};

// Bytes of a quantised matrix with its scales.
double quantized_bytes(const FrozenOptions& frozen, std::int64_t rows, std::int64_t count);

}  // namespace lockstep
