// Containers by OneFlow's names.
#pragma once
#include <unordered_map>
#include <unordered_set>

namespace oneflow {

template <typename Key, typename T, typename Hash = std::hash<Key>>
using HashMap = std::unordered_map<Key, T, Hash>;
template <typename Key, typename Hash = std::hash<Key>>
using HashSet = std::unordered_set<Key, Hash>;

}  // namespace oneflow
