// FNV-1a: a hash of a text that is the same on every machine and in every version. Use it for
// digests that are printed or stored, and for choices that depend on a text. FNV-1a does not resist
// attacks.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

inline std::uint64_t text_hash(std::string_view text) {
  std::uint64_t value = 14695981039346656037ULL;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return value;
}

}  // namespace lockstep
