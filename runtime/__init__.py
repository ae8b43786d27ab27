"""The runtime of lowered programs: executables, the object cache, the native library."""
