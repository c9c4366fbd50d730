// A described type with every kind of field. Used by the tests of readers and writers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/fields.hpp"

namespace lockstep {

enum class Colour { red, green, dark_blue };
template <>
struct EnumNames<Colour> {
  static constexpr std::array names{"red", "green", "dark_blue"};
};

namespace sample {

struct Plain {
  bool fast = true;
  bool operator==(const Plain&) const = default;
};
struct Noise {
  double sigma = 0;
  bool operator==(const Noise&) const = default;
};
using Kind = std::variant<Plain, Noise>;

struct Entry {
  Kind kind;
  std::string label;
  Location where;
  bool operator==(const Entry& other) const { return kind == other.kind && label == other.label; }
};

struct Memory {
  double size = 0;
  std::optional<double> bandwidth;
  bool operator==(const Memory&) const = default;
};

struct Sample {
  bool enabled = true;
  int count = 3;
  std::int64_t samples = 50000;
  double ratio = 0.5;
  double share = 0.02;
  double latency = 1e-6;
  std::string name = "unnamed";
  Colour colour = Colour::green;
  Memory memory;
  std::vector<double> sizes;
  std::vector<int> gpus{1};
  std::vector<std::string> words;
  std::vector<Memory> memories;
  std::optional<Memory> spare;
  std::map<std::string, std::string> sources;
  std::map<std::string, Memory> tiers;
  Kind kind;
  std::vector<Kind> kinds;
  std::vector<Entry> entries;
  Location memory_place, absent_place;

  bool operator==(const Sample& o) const {
    return enabled == o.enabled && count == o.count && samples == o.samples && ratio == o.ratio &&
           share == o.share && latency == o.latency && name == o.name && colour == o.colour &&
           memory == o.memory && sizes == o.sizes && gpus == o.gpus && words == o.words &&
           memories == o.memories && spare == o.spare && sources == o.sources && tiers == o.tiers &&
           kind == o.kind && kinds == o.kinds && entries == o.entries;
  }
};

template <class Visitor>
void describe(Visitor& v, Plain& p) {
  v.field("fast", p.fast, "Quick.");
}
template <class Visitor>
void describe(Visitor& v, Noise& n) {
  v.field("sigma", n.sigma, "Spread.",
          {.unit = Dimension::fraction, .min = 0, .max = 1, .required = true});
}
template <class Visitor>
void describe(Visitor& v, Entry& e) {
  v.location(e.where);
  v.alternative("kind", e.kind, "What it is.");
  v.field("label", e.label, "What it is called.");
}
template <class Visitor>
void describe(Visitor& v, Memory& m) {
  v.field("size", m.size, "Capacity | usable.",
          {.unit = Dimension::bytes, .min = 1, .max = 1e15, .required = true});
  v.field("bandwidth", m.bandwidth, "Read rate.", {.unit = Dimension::bytes_per_second, .min = 1});
  v.check([&](auto report) {
    if (m.bandwidth && *m.bandwidth < m.size / 1e6) {
      report("bandwidth", "is too low for the size", "raise it");
    }
  });
}
template <class Visitor>
void describe(Visitor& v, Sample& s) {
  v.field("enabled", s.enabled, "On.");
  v.field("count", s.count, "How many.", {.min = 1, .max = 100});
  v.field("samples", s.samples, "Samples.", {.unit = Dimension::count, .min = 0});
  v.field("ratio", s.ratio, "A number.", {.max = 1});
  v.field("share", s.share, "A part.", {.unit = Dimension::fraction, .min = 0, .max = 1});
  v.field("latency", s.latency, "A time.", {.unit = Dimension::seconds, .min = 0, .max = 60});
  v.field("name", s.name, "A text.");
  v.field("colour", s.colour, "A colour.");
  v.field("memory", s.memory, "Its memory.", {.required = true});
  v.location("memory", s.memory_place);
  v.location("spare", s.absent_place);
  v.field("sizes", s.sizes, "Sizes.", {.unit = Dimension::bytes, .min = 0, .max_items = 4});
  v.field("gpus", s.gpus, "Counts.", {.min = 1, .min_items = 1, .single = true});
  v.field("words", s.words, "Texts.");
  v.field("memories", s.memories, "More memory.");
  v.field("spare", s.spare, "Memory in the cupboard.");
  v.field("sources", s.sources, "Where figures come from.");
  v.field("tiers", s.tiers, "Memory by name.");
  v.field("kind", s.kind, "What kind.");
  v.field("kinds", s.kinds, "More kinds.");
  v.field("entries", s.entries, "Kinds with labels.");
}

}  // namespace sample

template <>
struct AlternativeNames<sample::Kind> {
  static constexpr std::array names{"plain", "noise"};
};

}  // namespace lockstep
