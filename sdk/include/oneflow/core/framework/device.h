// Devices and streams, by name.
#pragma once
#include <cstdint>
#include <string>

#include "oneflow/core/common/maybe.h"
#include "oneflow/core/common/symbol.h"
#include "oneflow/core/common/util.h"

namespace oneflow {

/// A device: "cpu" or "cuda", and the index of the device.
class Device final {
 public:
  Device(const std::string &type, int64_t device_id) : type_(type), device_id_(device_id) {}

  static Maybe<Symbol<Device>> New(const std::string &type, int64_t device_id = 0) {
    return SymbolOf(Device(type, device_id));
  }
  /// The device that a text such as "cuda:1" names.
  static Maybe<Symbol<Device>> ParseAndNew(const std::string &text) {
    const size_t colon = text.find(':');
    return New(text.substr(0, colon), colon == std::string::npos ? 0 : std::stoll(text.substr(colon + 1)));
  }

  const std::string &type() const { return type_; }
  int64_t device_id() const { return device_id_; }
  DeviceType enum_type() const { return type_ == "cpu" ? kCPU : kCUDA; }
  std::string ToString() const { return type_ + ":" + std::to_string(device_id_); }
  bool operator==(const Device &other) const { return type_ == other.type_ && device_id_ == other.device_id_; }

 private:
  std::string type_;
  int64_t device_id_;
};

enum class StreamType { kInvalid = 0, kCompute, kHost2Device, kDevice2Host, kCcl, kBarrier };

/// A stream of a device.
class Stream final {
 public:
  static Maybe<Symbol<Stream>> New(Symbol<Device> device, StreamType type) {
    return SymbolOf(Stream(device, type));
  }
  Symbol<Device> device() const { return device_; }
  StreamType stream_type() const { return type_; }
  bool operator==(const Stream &other) const { return device_ == other.device_ && type_ == other.type_; }

 private:
  Stream(Symbol<Device> device, StreamType type) : device_(device), type_(type) {}

  Symbol<Device> device_;
  StreamType type_;
};

}  // namespace oneflow
