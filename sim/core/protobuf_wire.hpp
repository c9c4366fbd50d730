// Reader and writer of Protocol Buffers on wire level (protobuf.dev, "Encoding"): pairs of a
// field's number and a value. Chakra traces use them. Lockstep knows the few fields that it needs
// by their numbers, so neither the protobuf library nor generated code is needed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// One field of a message. `bytes` points into the text that the message was made from.
struct WireField {
  std::uint32_t number = 0;
  // The value of a varint, the bits of a field of 4 or 8 bytes, or 0 for a length-delimited field.
  std::uint64_t value = 0;
  std::string_view bytes;  // texts, messages and packed lists; empty otherwise
  bool is_bytes = false;

  double from_double() const;  // the double whose bits are `value`
  std::string text() const { return std::string(bytes); }
};

// One message, read field by field in the file's order.
// REQUIRES: the file name and the bytes outlive the message.
class WireMessage {
 public:
  // `file` is the name for errors. `whole` contains all bytes of the file, and `bytes` is the part
  // of `whole` that contains this message.
  WireMessage(const std::string& file, std::string_view whole, std::string_view bytes);

  // Reads the next field; returns false at the end of the message. Throws ConfigError, with the
  // position of the byte, if the message breaks off or a field is invalid.
  bool next(WireField& field);
  // The message that is the value of a length-delimited field.
  WireMessage inside(const WireField& field) const { return {file_, whole_, field.bytes}; }
  // Appends the values of a repeated numeric field: several if the field is a packed list, else
  // one. Throws ConfigError if a packed list breaks off.
  void append(const WireField& field, std::vector<std::uint64_t>& numbers) const;

 private:
  [[noreturn]] void fail(const char* fault) const;
  std::uint64_t varint();

  friend std::string_view take_delimited(const std::string& file, std::string_view whole,
                                         std::string_view& rest);
  const std::string& file_;
  std::string_view whole_, rest_;
};

// Removes the next of several length-prefixed messages from the front of `rest` and returns its
// bytes. Throws ConfigError if the message is longer than the rest.
// REQUIRES: `rest` lies in `whole`.
std::string_view take_delimited(const std::string& file, std::string_view whole,
                                std::string_view& rest);

// Writes one message, field by field. Fields are stored in the order of the calls.
class WireWriter {
 public:
  void integer(std::uint32_t number, std::uint64_t value);
  void real(std::uint32_t number, double value);  // a double
  void text(std::uint32_t number, std::string_view bytes);
  void message(std::uint32_t number, const WireWriter& inner) { text(number, inner.bytes()); }
  // Writes the length of `inner`, and then `inner`, which take_delimited() reads.
  void delimited(const WireWriter& inner);
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value);
  std::string bytes_;
};

}  // namespace lockstep
