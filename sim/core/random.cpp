// Philox4x32-10, and distributions that are drawn from its words by inversion. Each draw uses one
// uniform number of its own, so it does not depend on earlier draws from other distributions.
#include "core/random.hpp"

#include <algorithm>
#include <cmath>

#include "core/wide_vectors.hpp"

namespace lockstep {

namespace {

// Value of a polynomial by Horner's rule. The coefficient of the highest power comes first.
template <std::size_t N>
double polynomial(const std::array<double, N>& coefficients, double x) {
  double value = 0;
  for (const double coefficient : coefficients) value = value * x + coefficient;
  return value;
}

// Coefficients of Wichura (1988), algorithm AS 241, PPND16. The quantile of the normal distribution
// is a quotient of two polynomials ("top" and "bottom"): one pair for the centre, one for the tails
// and one for the far tails.
constexpr std::array centre_top{2.5090809287301226727e+3, 3.3430575583588128105e+4,
                                6.7265770927008700853e+4, 4.5921953931549871457e+4,
                                1.3731693765509461125e+4, 1.9715909503065514427e+3,
                                1.3314166789178437745e+2, 3.3871328727963666080e+0};
constexpr std::array centre_bottom{5.2264952788528545610e+3, 2.8729085735721942674e+4,
                                   3.9307895800092710610e+4, 2.1213794301586595867e+4,
                                   5.3941960214247511077e+3, 6.8718700749205790830e+2,
                                   4.2313330701600911252e+1, 1.0};
constexpr std::array tail_top{7.74545014278341407640e-4, 2.27238449892691845833e-2,
                              2.41780725177450611770e-1, 1.27045825245236838258e+0,
                              3.64784832476320460504e+0, 5.76949722146069140550e+0,
                              4.63033784615654529590e+0, 1.42343711074968357734e+0};
constexpr std::array tail_bottom{1.05075007164441684324e-9, 5.47593808499534494600e-4,
                                 1.51986665636164571966e-2, 1.48103976427480074590e-1,
                                 6.89767334985100004550e-1, 1.67638483018380384940e+0,
                                 2.05319162663775882187e+0, 1.0};
constexpr std::array far_top{2.01033439929228813265e-7, 2.71155556874348757815e-5,
                             1.24266094738807843860e-3, 2.65321895265761230930e-2,
                             2.96560571828504891230e-1, 1.78482653991729133580e+0,
                             5.46378491116411436990e+0, 6.65790464350110377720e+0};
constexpr std::array far_bottom{2.04426310338993978564e-15, 1.42151175831644588870e-7,
                                1.84631831751005468180e-5,  7.86869131145613259100e-4,
                                1.48753612908506148525e-2,  1.36929880922735805310e-1,
                                5.99832206555887937690e-1,  1.0};

constexpr double centre = 0.425;  // half the width of the range of p around the median

// Quantile of p = 0.5 + q, for |q| <= `centre`.
double centre_quantile(double q) {
  const double r = 0.180625 - q * q;
  return q * polynomial(centre_top, r) / polynomial(centre_bottom, r);
}

// Quantiles of several numbers at once; the results are right only for numbers in the centre. The
// loop has no branch, so a compiler can vectorise it.
LOCKSTEP_WIDE_VECTORS
void centre_quantiles(std::span<const double> p, std::span<double> values) {
  for (std::size_t i = 0; i < p.size(); ++i) values[i] = centre_quantile(p[i] - 0.5);
}

}  // namespace

PhiloxWords philox4x32_10(PhiloxWords counter, std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = multiplier0 * counter[0];
    const std::uint64_t b = multiplier1 * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

double normal_quantile(double p) {
  const double q = p - 0.5;
  if (std::abs(q) <= centre) return centre_quantile(q);
  const double r = std::sqrt(-std::log(q < 0 ? p : 1 - p));
  const double value = r <= 5 ? polynomial(tail_top, r - 1.6) / polynomial(tail_bottom, r - 1.6)
                              : polynomial(far_top, r - 5) / polynomial(far_bottom, r - 5);
  return q < 0 ? -value : value;
}

double uniform_draw(const DrawKey& key) {
  // The constant in the fourth counter word makes these draws differ from other uses of the same
  // seed.
  const PhiloxWords words = philox4x32_10(
      {key.event, key.step, key.rank, 0x4C6F636BU},
      {static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32)});
  const std::uint64_t bits = (static_cast<std::uint64_t>(words[0]) << 32 | words[1]) >> 12;
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;  // 52 bits and one half: never 0 or 1
}

double normal_draw(const DrawKey& key) {
  return normal_quantile(uniform_draw(key));
}
double exponential_draw(const DrawKey& key) {
  return -std::log(uniform_draw(key));
}
double lognormal_draw(const DrawKey& key, double sigma) {
  return std::exp(sigma * normal_draw(key));
}

void lognormal_draws(const DrawKey& first, double sigma, std::span<double> values) {
  // Compute a chunk as if all numbers were in the centre, where 85 % are. Then replace the others.
  constexpr std::size_t together = 64;
  std::array<double, together> uniform;
  DrawKey key = first;
  for (std::size_t i = 0; i < values.size(); i += together) {
    const std::span<double> some = values.subspan(i, std::min(together, values.size() - i));
    for (std::size_t k = 0; k < some.size(); ++k, ++key.rank) uniform[k] = uniform_draw(key);
    centre_quantiles(std::span(uniform).first(some.size()), some);
    for (std::size_t k = 0; k < some.size(); ++k) {
      const bool tail = std::abs(uniform[k] - 0.5) > centre;
      some[k] = std::exp(sigma * (tail ? normal_quantile(uniform[k]) : some[k]));
    }
  }
}

double pareto_draw(const DrawKey& key, double alpha) {
  return std::pow(uniform_draw(key), -1 / alpha);
}

}  // namespace lockstep
