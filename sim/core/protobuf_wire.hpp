// Reads and writes Protocol Buffers on wire level (protobuf.dev, "Encoding"): pairs of a field's
// number and a value. Used for Chakra traces, whose few needed fields are known by number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct WireField {
  std::uint32_t number = 0;
  // varint: as it is. 4 or 8 bytes: their bits. Bytes: 0.
  std::uint64_t value = 0;
  std::string_view bytes;  // of texts, messages and packed lists; empty for the others
  bool is_bytes = false;

  double from_double() const;  // the bits of a double
  std::string text() const { return std::string(bytes); }
};

// One message, field by field, in the file's order.
class WireMessage {
 public:
  // `file`: for errors; `whole`: all its bytes, `bytes` lies in it.
  WireMessage(const std::string& file, std::string_view whole, std::string_view bytes);

  // False at the end. Throws ConfigError with the byte at which the message breaks off or a field
  // is invalid.
  bool next(WireField& field);
  // The message inside of a field.
  WireMessage inside(const WireField& field) const { return {file_, whole_, field.bytes}; }
  // A repeated number: packed into bytes, or one by one.
  void append(const WireField& field, std::vector<std::uint64_t>& numbers) const;

 private:
  [[noreturn]] void fail(const char* fault) const;
  std::uint64_t varint();

  friend std::string_view take_delimited(const std::string& file, std::string_view whole,
                                         std::string_view& rest);
  const std::string& file_;
  std::string_view whole_, rest_;
};

// Takes the next of several length-prefixed messages off `rest`, which must lie in `whole`. Throws
// ConfigError.
std::string_view take_delimited(const std::string& file, std::string_view whole,
                                std::string_view& rest);

// A message being written, field by field.
class WireWriter {
 public:
  void integer(std::uint32_t number, std::uint64_t value);
  void real(std::uint32_t number, double value);  // a double
  void text(std::uint32_t number, std::string_view bytes);
  void message(std::uint32_t number, const WireWriter& inner) { text(number, inner.bytes()); }
  // Writes `inner` with its length in front, as take_delimited() reads it.
  void delimited(const WireWriter& inner);
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value);
  std::string bytes_;
};

}  // namespace lockstep
