// Encodes and decodes varints, fixed-width and length-delimited fields of the Protocol Buffers wire
// format. A field begins with a key, `number << 3 | type`, which is a varint. A varint has seven
// bits in each byte, the lowest bits first; the top bit is set in all bytes but the last.
//   type 0: varint    1: 8 bytes    2: varint length, then bytes    5: 4 bytes
// Other types are refused; groups (3 and 4) are deprecated.
#include "core/protobuf_wire.hpp"

#include <fmt/format.h>

#include <bit>

#include "core/errors.hpp"

namespace lockstep {

double WireField::from_double() const {
  return std::bit_cast<double>(value);
}

WireMessage::WireMessage(const std::string& file, std::string_view whole, std::string_view bytes)
    : file_(file), whole_(whole), rest_(bytes) {}

void WireMessage::fail(const char* fault) const {
  throw file_error(file_, "", fmt::format("byte {}: {}", rest_.data() - whole_.data(), fault),
                   "was the file written to the end?");
}

// Removes a varint from the front of the remaining bytes.
std::uint64_t WireMessage::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) fail("a number breaks off");
    const auto byte = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  fail("a number has more than ten bytes");
}

bool WireMessage::next(WireField& field) {
  if (rest_.empty()) return false;
  const std::uint64_t key = varint();
  field = {};
  field.number = static_cast<std::uint32_t>(key >> 3);
  if (field.number == 0 || key >> 32 != 0) fail("no field of a message");
  const auto fixed = [&](std::size_t size) {
    if (rest_.size() < size) fail("a number breaks off");
    for (std::size_t i = 0; i < size; ++i)
      field.value |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(rest_[i])) << (8 * i);
    rest_.remove_prefix(size);
  };
  switch (key & 7) {
    case 0:
      field.value = varint();
      break;
    case 1:
      fixed(8);
      break;
    case 2: {
      const std::uint64_t size = varint();
      if (size > rest_.size()) fail("a field is longer than the message around it");
      field.bytes = rest_.substr(0, size);
      field.is_bytes = true;
      rest_.remove_prefix(size);
      break;
    }
    case 5:
      fixed(4);
      break;
    default:
      fail("no field of a message");
  }
  return true;
}

void WireMessage::append(const WireField& field, std::vector<std::uint64_t>& numbers) const {
  if (!field.is_bytes) {
    numbers.push_back(field.value);
    return;
  }
  // A packed list: the field's bytes are varints without keys.
  WireMessage packed(file_, whole_, field.bytes);
  while (!packed.rest_.empty()) numbers.push_back(packed.varint());
}

std::string_view take_delimited(const std::string& file, std::string_view whole,
                                std::string_view& rest) {
  WireMessage messages(file, whole, rest);
  const std::uint64_t size = messages.varint();
  if (size > messages.rest_.size()) messages.fail("a message is longer than the file");
  rest = messages.rest_.substr(size);
  return messages.rest_.substr(0, size);
}

void WireWriter::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
  bytes_ += static_cast<char>(value);
}

void WireWriter::integer(std::uint32_t number, std::uint64_t value) {
  varint(std::uint64_t{number} << 3);
  varint(value);
}

void WireWriter::real(std::uint32_t number, double value) {
  varint(std::uint64_t{number} << 3 | 1);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(bits >> shift);
}

void WireWriter::text(std::uint32_t number, std::string_view bytes) {
  varint(std::uint64_t{number} << 3 | 2);
  varint(bytes.size());
  bytes_ += bytes;
}

void WireWriter::delimited(const WireWriter& inner) {
  varint(inner.bytes().size());
  bytes_ += inner.bytes();
}

}  // namespace lockstep
