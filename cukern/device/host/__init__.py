"""The host: kernels compiled by the system's C++ compiler, their blocks run on all cores."""
