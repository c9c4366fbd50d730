// The DDP communication hooks whose compute is measured rather than modelled, and the parameters on
// which that compute depends. A profile stores measurements by HookSettings; the DDP strategy asks
// for the work of each stage.
#pragma once

#include "core/fields.hpp"

namespace lockstep {

// Gradient compression: the largest elements of a bucket (top-k), or a low-rank factorization
// (PowerSGD).
enum class CodedHook { top_k, powersgd };
template <>
struct EnumNames<CodedHook> {
  static constexpr std::array names{"top-k", "powersgd"};
};
// Number of stages of compute; a collective runs between two stages. top-k: an all-gather of the
// chosen elements. PowerSGD: all-reduces of the tensors that are too small to compress, of P and of
// Q.
constexpr std::size_t stages_of(CodedHook hook) {
  return hook == CodedHook::top_k ? 2 : 4;
}

// Parameters of a hook that change its work.
struct HookSettings {
  CodedHook hook = CodedHook::top_k;
  double fraction = 0.01;  // top-k: share of a bucket's elements that is sent
  int rank = 1;            // powersgd: of the approximation
  int ranks = 2;           // that reduce the bucket
};
// Whether two settings have equal work: parameters of the other hook do not count.
inline bool same_work(const HookSettings& a, const HookSettings& b) {
  return a.hook == b.hook && a.ranks == b.ranks &&
         (a.hook == CodedHook::top_k ? a.fraction == b.fraction : a.rank == b.rank);
}

}  // namespace lockstep
