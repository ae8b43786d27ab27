"""Running what lowering made: executables, the object cache, the native library."""
