//! Finding and loading the library that really drives a device.
