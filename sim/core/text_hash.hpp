// FNV-1a: the same number for a text everywhere and always, for digests and choices by hash.
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
