#include "json.h"

#include <cmath>
#include <cstdio>

namespace oneflow {
namespace json {

namespace {

std::string Escaped(char c) {
  if (c == '"' || c == '\\') return {'\\', c};
  if (static_cast<unsigned char>(c) >= 0x20) return {c};
  char buffer[8];
  std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(c));
  return buffer;
}

std::string Integer(int64_t value) { return std::to_string(value); }

}  // namespace

std::string Text(const std::string &text) {
  std::string quoted = "\"";
  for (char c : text) quoted += Escaped(c);
  return quoted + "\"";
}

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.17g", value);
  return buffer;
}

std::string List(const std::vector<std::string> &items) {
  std::string text;
  for (const std::string &item : items) text += (text.empty() ? "" : ",") + item;
  return "[" + text + "]";
}

std::string Object(const std::vector<std::pair<std::string, std::string>> &fields) {
  std::string text;
  for (const auto &field : fields) text += (text.empty() ? "" : ",") + Text(field.first) + ":" + field.second;
  return "{" + text + "}";
}

std::string Attribute(const AttrValue &value) {
  return Object({{"type", Integer(value.type)},
                 {"ints", ListOf(value.ints, Integer)},
                 {"floats", ListOf(value.floats, Number)},
                 {"texts", ListOf(value.texts, Text)},
                 {"lengths", ListOf(value.lengths, Integer)}});
}

}  // namespace json
}  // namespace oneflow
