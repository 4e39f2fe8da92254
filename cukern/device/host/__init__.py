"""The host: kernels compiled by the system's C++ compiler, with blocks run on all cores."""
