#include "engine.h"

#include <cerrno>
#include <cstring>

namespace ROCKSDB_NAMESPACE {
namespace coldstream_plugin {

namespace {

std::string Trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string::npos) {
    return "";
  }
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

Status OptionsError(int error, const std::string& text) {
  const std::string message = "coldstream: " + (text.empty() ? std::string(strerror(-error)) : text);
  switch (-error) {
    case EINVAL:
      return Status::InvalidArgument(message);
    case EBUSY:
      return Status::Busy(message);
    case ENOMEM:
      return Status::MemoryLimit(message);
    case ENOSYS:
      return Status::NotSupported(message);
    default:
      return Status::IOError(message);
  }
}

}  // namespace

Status Engine::Create(const std::string& options, std::shared_ptr<Engine>* result) {
  std::shared_ptr<Engine> engine(new Engine());
  // What the engine's own options are: everything but the plugin's.
  std::string passed;
  for (size_t start = 0; start < options.size();) {
    size_t end = options.find(';', start);
    end = end == std::string::npos ? options.size() : end;
    const std::string option = Trimmed(options.substr(start, end - start));
    start = end + 1;
    if (option == "mmap=plain" || option == "mmap=error") {
      engine->allows_mmap_ = option == "mmap=plain";
    } else if (option.compare(0, 5, "mmap=") == 0) {
      return Status::InvalidArgument("coldstream: option " + option + ": give mmap=error or mmap=plain");
    } else if (!option.empty()) {
      engine->demands_direct_ |= option == "reads=direct" || option == "writes=direct";
      passed += (passed.empty() ? "" : ";") + option;
    }
  }
  char text[1024] = "";
  const int error =
      coldstream_create(passed.empty() ? nullptr : passed.c_str(), &engine->context_, text, sizeof(text));
  if (error != 0) {
    return OptionsError(error, text);
  }
  *result = std::move(engine);
  return Status::OK();
}

Engine::~Engine() {
  if (context_ != nullptr) {
    coldstream_destroy(context_);
  }
}

IOStatus ErrorOf(int64_t error, const std::string& call, const std::string& path) {
  const int number = static_cast<int>(-error);
  const std::string context = "While coldstream " + call + ": " + path;
  if (number == ENOSPC || number == EDQUOT) {
    IOStatus status = IOStatus::NoSpace(context, strerror(number));
    // As RocksDB's own files: the space may come back.
    status.SetRetryable(true);
    return status;
  }
  if (number == ENOENT) {
    return IOStatus::PathNotFound(context, strerror(number));
  }
  return IOStatus::IOError(context, strerror(number));
}

}  // namespace coldstream_plugin
}  // namespace ROCKSDB_NAMESPACE
