// Writes JSON.
#pragma once
#include <string>
#include <vector>

#include "oneflow/core/framework/attr_value.h"

namespace oneflow {
namespace json {

std::string Text(const std::string &text);
std::string Number(double value);
std::string Object(const std::vector<std::pair<std::string, std::string>> &fields);
/// A list of values that are JSON already.
std::string List(const std::vector<std::string> &items);
std::string Attribute(const AttrValue &value);

template <typename Items, typename Write>
std::string ListOf(const Items &items, Write write) {
  std::vector<std::string> texts;
  for (const auto &item : items) texts.push_back(write(item));
  return List(texts);
}

}  // namespace json
}  // namespace oneflow
