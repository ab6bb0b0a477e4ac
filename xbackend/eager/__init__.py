"""Eager execution: each function of `xbackend`, op by op, on arrays that are on a backend's device."""
