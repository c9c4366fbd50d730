// A described type with every kind of field, for the tests of readers and writers.
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
  v.field({.name = "fast", .doc = "Quick."}, p.fast);
}
template <class Visitor>
void describe(Visitor& v, Noise& n) {
  v.field({.name = "sigma",
           .doc = "Spread.",
           .unit = Dimension::fraction,
           .min = 0,
           .max = 1,
           .required = true},
          n.sigma);
}
template <class Visitor>
void describe(Visitor& v, Entry& e) {
  v.location(e.where);
  v.alternative({.name = "kind", .doc = "What it is."}, e.kind);
  v.field({.name = "label", .doc = "What it is called."}, e.label);
}
template <class Visitor>
void describe(Visitor& v, Memory& m) {
  v.field({.name = "size",
           .doc = "Capacity | usable.",
           .unit = Dimension::bytes,
           .min = 1,
           .max = 1e15,
           .required = true},
          m.size);
  v.field({.name = "bandwidth", .doc = "Read rate.", .unit = Dimension::bytes_per_second, .min = 1},
          m.bandwidth);
  v.check([&](auto report) {
    if (m.bandwidth && *m.bandwidth < m.size / 1e6) {
      report("bandwidth", "is too low for the size", "raise it");
    }
  });
}
template <class Visitor>
void describe(Visitor& v, Sample& s) {
  v.field({.name = "enabled", .doc = "On."}, s.enabled);
  v.field({.name = "count", .doc = "How many.", .min = 1, .max = 100}, s.count);
  v.field({.name = "samples", .doc = "Samples.", .unit = Dimension::count, .min = 0}, s.samples);
  v.field({.name = "ratio", .doc = "A number.", .max = 1}, s.ratio);
  v.field({.name = "share", .doc = "A part.", .unit = Dimension::fraction, .min = 0, .max = 1},
          s.share);
  v.field({.name = "latency", .doc = "A time.", .unit = Dimension::seconds, .min = 0, .max = 60},
          s.latency);
  v.field({.name = "name", .doc = "A text."}, s.name);
  v.field({.name = "colour", .doc = "A colour."}, s.colour);
  v.field({.name = "memory", .doc = "Its memory.", .required = true}, s.memory);
  v.location("memory", s.memory_place);
  v.location("spare", s.absent_place);
  v.field({.name = "sizes", .doc = "Sizes.", .unit = Dimension::bytes, .min = 0, .max_items = 4},
          s.sizes);
  v.field({.name = "gpus", .doc = "Counts.", .min = 1, .min_items = 1, .single = true}, s.gpus);
  v.field({.name = "words", .doc = "Texts."}, s.words);
  v.field({.name = "memories", .doc = "More memory."}, s.memories);
  v.field({.name = "spare", .doc = "Memory in the cupboard."}, s.spare);
  v.field({.name = "sources", .doc = "Where figures come from."}, s.sources);
  v.field({.name = "tiers", .doc = "Memory by name."}, s.tiers);
  v.field({.name = "kind", .doc = "What kind."}, s.kind);
  v.field({.name = "kinds", .doc = "More kinds."}, s.kinds);
  v.field({.name = "entries", .doc = "Kinds with labels."}, s.entries);
}

}  // namespace sample

template <>
struct AlternativeNames<sample::Kind> {
  static constexpr std::array names{"plain", "noise"};
};

}  // namespace lockstep
