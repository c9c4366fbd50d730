// Do the compressions of gradients keep what their papers promise?
#include "convergence/compression.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace lockstep {
namespace {

constexpr int ranks = 3;

// The gradients of each rank: a matrix, a vector, and the weights of a convolution.
std::vector<Tensors> gradients(std::uint64_t seed) {
  at::manual_seed(seed);
  std::vector<Tensors> all;
  for (int r = 0; r < ranks; ++r) {
    all.push_back({at::randn({40, 30}), at::randn({17}), at::randn({20, 6, 3, 3})});
  }
  return all;
}

Tensors mean(const std::vector<Tensors>& of_ranks) {
  Tensors result;
  for (std::size_t i = 0; i < of_ranks.front().size(); ++i) {
    at::Tensor sum = at::zeros_like(of_ranks.front()[i]);
    for (const Tensors& of_rank : of_ranks) sum += of_rank[i];
    result.push_back(sum / static_cast<double>(of_ranks.size()));
  }
  return result;
}

double apart(const Tensors& a, const Tensors& b) {
  double most = a.size() == b.size() ? 0 : 1e9;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, (a[i] - b[i]).abs().max().item<double>());
  }
  return most;
}

void add(Tensors& sum, const Tensors& values) {
  if (sum.empty()) {
    for (const at::Tensor& v : values) sum.push_back(at::zeros_like(v));
  }
  for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
}

CompressedMean by(Compression compression, double fraction = 0.1, int rank = 2) {
  CompressedMean mean;
  mean.compression = compression;
  mean.fraction = fraction;
  mean.rank = rank;
  mean.buckets = {{2, 1}, {0}};
  return mean;
}

GradientReducer reducer(const CompressedMean& mean, int of = ranks) {
  return {mean, of, 3, 7};
}

TEST(Compression, WithFeedbackSendsOrKeepsAllOfTheGradients) {
  for (const Compression compression :
       {Compression::top_k, Compression::random_k, Compression::powersgd, Compression::onebit}) {
    GradientReducer of = reducer(by(compression));
    Tensors applied, wanted;
    for (int step = 1; step <= 20; ++step) {
      const std::vector<Tensors> all = gradients(static_cast<std::uint64_t>(step));
      const Tensors got = of.reduce(all, step);
      EXPECT_GT(apart(got, mean(all)), 0.01);
      add(applied, got);
      add(wanted, mean(all));
    }
    add(applied, of.waiting());
    EXPECT_LT(apart(applied, wanted), 1e-4) << static_cast<int>(compression);
  }
}

TEST(Compression, OfEverythingIsTheMean) {
  for (const Compression compression : {Compression::top_k, Compression::random_k}) {
    GradientReducer of = reducer(by(compression, 1));
    for (int step = 1; step <= 3; ++step) {
      const auto all = gradients(static_cast<std::uint64_t>(step));
      EXPECT_LT(apart(of.reduce(all, step), mean(all)), 1e-6);
    }
  }
}

TEST(Compression, SendsTheShareOfABucketThatIsAskedFor) {
  GradientReducer of = reducer(by(Compression::random_k, 0.01));
  const Tensors got = of.reduce(gradients(1), 1);
  EXPECT_EQ(got[0].count_nonzero().item<std::int64_t>(), 12);  // 1200 / 100
  const at::Tensor other = at::cat({got[1].flatten(), got[2].flatten()});
  EXPECT_EQ(other.count_nonzero().item<std::int64_t>(), 11);  // (17 + 1080) / 100, rounded up
  GradientReducer largest = reducer(by(Compression::top_k, 0.01));
  std::vector<Tensors> all = gradients(1);
  all[1][0].view({-1}).slice(0, 0, 12).fill_(100);
  all[2][0].zero_();
  all[0][0].view({-1}).slice(0, 0, 12).fill_(-40);
  const at::Tensor sent = largest.reduce(all, 1)[0].flatten();
  EXPECT_EQ(sent.slice(0, 0, 12).min().item<double>(), 20);
  EXPECT_EQ(sent.slice(0, 12).count_nonzero().item<std::int64_t>(), 0);
}

// If the ranks' matrices have common columns, their mean has the rank of a single matrix, and
// PowerSGD finds this mean exactly.
TEST(Compression, ByPowerSgdIsTheMeanWhereItHasTheRank) {
  for (const int rank : {1, 3}) {
    std::vector<Tensors> all = gradients(1);
    const at::Tensor rows = at::randn({rank, 30}), filters = at::randn({rank, 54});
    for (Tensors& of_rank : all) {
      of_rank[0] = at::randn({40, rank}).mm(rows);
      of_rank[2] = at::randn({20, rank}).mm(filters).view({20, 6, 3, 3});
    }
    GradientReducer of = reducer(by(Compression::powersgd, 1, rank));
    EXPECT_LT(apart(of.reduce(all, 1), mean(all)), 1e-4) << rank;
  }
}

// Power iteration continues with the factors of the step before (Vogels et al. 2019, section 4.2),
// so it converges to the best approximation.
TEST(Compression, ByPowerSgdFindsTheBestApproximationInTheEnd) {
  at::manual_seed(5);
  const at::Tensor u = std::get<0>(at::linalg_qr(at::randn({40, 40})));
  const at::Tensor v = std::get<0>(at::linalg_qr(at::randn({30, 30})));
  const at::Tensor sizes = at::pow(0.5, at::arange(30, at::kFloat));
  const at::Tensor matrix = u.slice(1, 0, 30).mul(sizes).mm(v.t());
  const at::Tensor best = u.slice(1, 0, 2).mul(sizes.slice(0, 0, 2)).mm(v.slice(1, 0, 2).t());
  CompressedMean one = by(Compression::powersgd);
  one.buckets.clear();
  GradientReducer of(one, 1, 1, 7);
  at::Tensor kept = at::zeros_like(matrix), got;
  for (int step = 1; step <= 40; ++step) {
    // The waiting error is subtracted from the gradient, so that the compressed matrix stays the
    // same.
    got = of.reduce({{matrix - kept}}, step)[0];
    kept = of.waiting()[0];
  }
  EXPECT_LT((got - best).abs().max().item<double>(), 1e-4);
}

TEST(Compression, ByQsgdIsRightOnAverage) {
  const std::vector<Tensors> all = gradients(3);
  GradientReducer of = reducer(by(Compression::qsgd));
  Tensors sum;
  constexpr int draws = 2000;
  for (int step = 1; step <= draws; ++step) add(sum, of.reduce(all, step));
  const Tensors wanted = mean(all);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    // Each value is rounded within one level; a level is the norm over 127.
    const double level = (i == 0 ? std::sqrt(1200.0) : std::sqrt(1097.0)) / 127;
    const double error = level / 2 / std::sqrt(1.0 * draws * ranks);
    EXPECT_LT((sum[i] / draws - wanted[i]).abs().max().item<double>(), 6 * error);
  }
}

TEST(Compression, DrawsDependOnSeedRankAndStepOnly) {
  for (const Compression compression : {Compression::qsgd, Compression::random_k}) {
    GradientReducer early = reducer(by(compression)), late = reducer(by(compression));
    const auto all = gradients(1);
    const Tensors first = early.reduce(all, 5);
    at::manual_seed(99);
    EXPECT_EQ(apart(late.reduce(all, 5), first), 0);
    GradientReducer other = reducer(by(compression));
    EXPECT_GT(apart(other.reduce(all, 6), first), 0.01);
    GradientReducer seeded(by(compression), ranks, 3, 8);
    EXPECT_GT(apart(seeded.reduce(all, 5), first), 0.01);
  }
  // Ranks with equal gradients round them differently, so the mean has values between two levels.
  std::vector<Tensors> same(ranks, gradients(1)[0]);
  GradientReducer three = reducer(by(Compression::qsgd)), one = reducer(by(Compression::qsgd), 1);
  EXPECT_GT(apart(three.reduce(same, 1), one.reduce({same[0]}, 1)), 0.01);
}

TEST(Compression, DoesNotDependOnTheRanksOrder) {
  for (const Compression compression :
       {Compression::top_k, Compression::random_k, Compression::powersgd, Compression::sign,
        Compression::onebit}) {
    auto all = gradients(1);
    const Tensors got = reducer(by(compression)).reduce(all, 1);
    std::swap(all[0], all[2]);
    EXPECT_LT(apart(reducer(by(compression)).reduce(all, 1), got), 1e-5);
  }
}

TEST(Compression, ToSignsIsTheMajority) {
  std::vector<Tensors> all;
  for (const std::vector<float>& of_rank :
       std::vector<std::vector<float>>{{1, -2, 3}, {5, -1, -1}, {-9, -9, -1}, {1, 2, 1}}) {
    all.push_back({at::tensor(of_rank), at::zeros({1}), at::zeros({2})});
  }
  const at::Tensor got = reducer(by(Compression::sign), 4).reduce(all, 1)[0];
  EXPECT_TRUE(got.equal(at::tensor({1.0F, -1.0F, 0.0F})));
}

// As in DeepSpeed (runtime/comm/nccl.py), each of two ranks sums up half of four elements.
TEST(Compression, ToOneBitIsTheExchangeOfOneBitAdam) {
  CompressedMean one = by(Compression::onebit);
  one.buckets.clear();
  GradientReducer of(one, 2, 1, 7);
  const at::Tensor a = at::tensor({1.0F, -1.0F, 1.0F, -1.0F}),
                   b = at::tensor({3.0F, 3.0F, 3.0F, -3.0F});
  // The signs with the sizes 1 and 3 lose nothing. Their mean is 2, 1, 2, -2, and each half is
  // compressed with its own size.
  const double first = std::sqrt(2.5);
  const at::Tensor wanted = at::tensor({first, first, 2.0, -2.0}).to(at::kFloat);
  EXPECT_LT((of.reduce({{a}, {b}}, 1)[0] - wanted).abs().max().item<double>(), 1e-6);
  const at::Tensor waiting = at::tensor({2 - first, 1 - first, 0.0, 0.0}).to(at::kFloat);
  EXPECT_LT((of.waiting()[0] - waiting).abs().max().item<double>(), 1e-6);
}

TEST(Compression, ToHalvesAddsThemUpInHalves) {
  for (const auto& [element, type] : {std::pair{GradientElement::fp16, at::kHalf},
                                      std::pair{GradientElement::bf16, at::kBFloat16}}) {
    CompressedMean cast;
    cast.element = element;
    const auto all = gradients(2);
    const Tensors got = reducer(cast).reduce(all, 1);
    for (std::size_t i = 0; i < got.size(); ++i) {
      at::Tensor sum = all[0][i].to(type) + all[1][i].to(type);
      sum = (sum + all[2][i].to(type)) / 3;
      EXPECT_TRUE(got[i].equal(sum.to(at::kFloat)));
    }
    EXPECT_GT(apart(got, mean(all)), 1e-5);
  }
}

}  // namespace
}  // namespace lockstep
