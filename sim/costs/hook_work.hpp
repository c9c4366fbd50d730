// The DDP communication hooks whose compute is measured rather than modelled, and the parameters on
// which that compute depends. A profile (costs/profile.hpp) stores measurements by HookSettings;
// the DDP strategy asks for the seconds of each stage of compute.
#pragma once

#include "core/fields.hpp"

namespace lockstep {

// Hooks that compress gradients. top_k sends the largest elements of a bucket; powersgd sends a
// low-rank factorisation of a bucket.
enum class CodedHook { top_k, powersgd };
template <>
struct EnumNames<CodedHook> {
  static constexpr std::array names{"top-k", "powersgd"};
};
// Number of stages of compute; one collective runs between each two consecutive stages. Top-k has
// one collective, an all-gather of the chosen elements. PowerSGD has three all-reduces: of the
// tensors that are too small to compress, of the factor P, and of the factor Q.
constexpr std::size_t stages_of(CodedHook hook) {
  return hook == CodedHook::top_k ? 2 : 4;
}

// Parameters of a hook that change its work.
struct HookSettings {
  CodedHook hook = CodedHook::top_k;
  double fraction = 0.01;  // top-k: share of a bucket's elements that is sent
  int rank = 1;            // powersgd: rank of the approximation
  int ranks = 2;           // number of ranks that reduce the bucket together
};
// Whether two settings have equal work. A parameter that only the other hook uses is ignored.
inline bool same_work(const HookSettings& a, const HookSettings& b) {
  return a.hook == b.hook && a.ranks == b.ranks &&
         (a.hook == CodedHook::top_k ? a.fraction == b.fraction : a.rank == b.rank);
}

}  // namespace lockstep
