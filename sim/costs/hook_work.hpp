// The communication hooks whose work on a bucket can be measured, and what that work depends on.
#pragma once

#include "core/fields.hpp"

namespace lockstep {

enum class CodedHook { top_k, powersgd };
template <>
struct EnumNames<CodedHook> {
  static constexpr std::array names{"top-k", "powersgd"};
};
// A collective lies between two stages of work: what the ranks chose is gathered; tensors that are too
// small to compress, P and Q are summed.
constexpr std::size_t stages_of(CodedHook hook) {
  return hook == CodedHook::top_k ? 2 : 4;
}

struct HookSettings {
  CodedHook hook = CodedHook::top_k;
  double fraction = 0.01;  // top-k: share of a bucket's elements that is sent
  int rank = 1;            // powersgd: of the approximation
  int ranks = 2;           // that reduce the bucket
};
inline bool same_work(const HookSettings& a, const HookSettings& b) {
  return a.hook == b.hook && a.ranks == b.ranks &&
         (a.hook == CodedHook::top_k ? a.fraction == b.fraction : a.rank == b.rank);
}

}  // namespace lockstep
