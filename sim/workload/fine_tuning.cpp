// Compares a model's layers and parameters with the names that a scenario gives, and computes the
// bytes of quantised weights. A name matches a layer whose path ends with it after a dot ("q_proj"
// matches "layers.0.attn.q_proj"), like peft's target_modules; frozen parameters match by patterns
// with `*`.
#include "workload/fine_tuning.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "workload/placement.hpp"

namespace lockstep {

namespace {

constexpr double block_of_scale = 64;  // elements per scale (bitsandbytes, blocksize)
// scales per fp32 scale of scales, with nested quantization
constexpr double block_of_nested_scale = 256;

bool ends_with_name(const std::string& layer, const std::string& name) {
  return layer == name || layer.ends_with("." + name);
}

std::string last_part(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

// Whether the layer is one of the two products that ops_adapters.cpp writes.
bool is_adapter(const std::string& layer) {
  const std::string part = last_part(layer);
  return part == "lora_A" || part == "lora_B";
}

}  // namespace

void Freezing::refuse(const char* field, const std::string& message,
                      const std::string& hint) const {
  throw ConfigError(Diagnostic{options_.where(), field, message, hint});
}

// Whether one of the names matches the layer. Every match is recorded, so that check() does not
// report the name.
bool Freezing::named(const std::vector<std::string>& names, const std::string& layer) {
  bool any = false;
  for (const std::string& name : names) {
    if (!ends_with_name(layer, name)) continue;
    found_.insert(name);
    any = true;
  }
  return any;
}

bool Freezing::whole(const std::string& layer) {
  return options_.adapters && named(options_.adapters->whole, layer);
}

bool Freezing::trains(const std::string& layer, const std::string& parameter) {
  layers_.insert(last_part(layer));
  if (options_.adapters) return is_adapter(layer) || whole(layer);
  bool trained = true;
  for (const std::string& pattern : options_.frozen.parameters) {
    if (!fits(pattern, parameter) && !fits(pattern + ".*", parameter)) continue;
    found_.insert(pattern);
    trained = false;
  }
  return trained;
}

bool Freezing::adapts(const std::string& layer, const std::string& block, std::int64_t in,
                      std::int64_t out) {
  if (!options_.adapters) return false;
  linear_.insert(last_part(layer));
  const AdapterOptions& adapters = *options_.adapters;
  const bool all = !block.empty() && adapters.targets == std::vector<std::string>{"all"};
  if (all) found_.insert("all");
  if (!all && !named(adapters.targets, layer)) return false;
  if (whole(layer)) {
    refuse("adapters.whole", fmt::format("'{}' has an adapter", layer),
           "name a layer in `targets` or in `whole`");
  }
  if (const std::int64_t most = std::min(in, out); adapters.rank > most) {
    refuse(
        "adapters.rank",
        fmt::format("{} is more than '{}' has: {} to {} features", adapters.rank, layer, in, out),
        fmt::format("at most {}", most));
  }
  return true;
}

// bitsandbytes does not quantise the head; here no layer outside of the repeated blocks is
// quantised. Adapters are not quantised either.
bool Freezing::quantizes(const std::string& layer, const std::string& block) {
  if (options_.frozen.quantization == Quantization::none) return false;
  if (block.empty() || is_adapter(layer)) return false;
  if (whole(layer)) {
    refuse("adapters.whole",
           fmt::format("'{}' cannot be trained whole: its weights are quantised", layer),
           "a layer outside the repeated blocks, or no frozen.quantization");
  }
  return true;
}

void Freezing::check_names(const char* field, const std::vector<std::string>& names,
                           const std::set<std::string>& known) const {
  for (const std::string& name : names) {
    if (found_.contains(name)) continue;
    refuse(field, fmt::format("the model has no such layer: {}", in_quotes(name)),
           allowed_hint(name, {known.begin(), known.end()}));
  }
}

void Freezing::check() const {
  if (options_.adapters) {
    check_names("adapters.targets", options_.adapters->targets, linear_);
    check_names("adapters.whole", options_.adapters->whole, layers_);
  }
  check_names("frozen.parameters", options_.frozen.parameters, layers_);
}

// int8: one byte per element and 4 bytes per row. nf4: half a byte per element and 4 bytes per 64
// elements; if nested, one byte per 64 elements and 4 bytes per 256 scales.
double quantized_bytes(const FrozenOptions& frozen, std::int64_t rows, std::int64_t count) {
  const auto elements = static_cast<double>(count);
  if (frozen.quantization == Quantization::int8) return elements + 4.0 * static_cast<double>(rows);
  const double scales = elements / block_of_scale;
  return elements / 2 + (frozen.nested ? scales * (1 + 4 / block_of_nested_scale) : 4 * scales);
}

}  // namespace lockstep
