// Quantities with units, as users write them: "80 GiB", "2039 GB/s", "3.4 us", "2%", "312 TFLOP/s".
// All readers and messages use these functions. Inside of the program every value is a double in
// the base unit of its dimension: bytes, seconds, bytes/s, FLOP/s, hertz, 1, USD, USD/h, watts.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep {

// The kinds of quantities, with the units that a user may write.
enum class Dimension {
  none,     // a plain number; no unit allowed
  count,    // a plain number, with optional decimal suffix k, M, G/B, T ("125M parameters")
  bytes,    // B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024)
  seconds,  // ns, us, ms, s, min, h, d
  bytes_per_second,  // GB/s, GiB/s, ...; also bit rates: Mbit/s, Gbit/s, Tbit/s
  flops_per_second,  // GFLOP/s, TFLOP/s, PFLOP/s
  hertz,             // Hz, kHz, MHz, GHz
  fraction,          // "2%" or a plain 0.02
  dollars,           // USD
  dollars_per_hour,  // USD/h
  watts,             // W, kW
};

// Thrown by parse_quantity(); `what()` contains the mistake and the allowed units.
class UnitError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The value of `text` in the dimension's base unit. If a unit is needed (bytes, seconds, rates,
// hertz, money, watts), a number without a unit is an error; NaN and infinity are always errors. A
// space before the unit is optional. Units are case sensitive. Throws UnitError, whose message
// suggests the right case if only the case is wrong.
double parse_quantity(std::string_view text, Dimension dimension);

// The shortest text that parse_quantity() reads back to exactly the same double: "25 MiB".
std::string quantity_text(double value, Dimension dimension);

// A text for people, with about `digits` significant digits and a fitting prefix: "1.23 ms", "4.50
// GB/s". Money is given to the cent. The text is not meant to be read back.
std::string human(double value, Dimension dimension, int digits = 3);

// A description for messages, docs and schema, "bytes, for example 80 GiB"; with the list of units
// if `with_units`.
std::string dimension_help(Dimension dimension, bool with_units = false);
// Regular expression of accepted texts, for the JSON Schema. `negative` allows a minus sign.
std::string dimension_pattern(Dimension dimension, bool negative = true);

}  // namespace lockstep
