"""Checked launches: kernels compiled so that each access is watched, and the reports of what is found."""
