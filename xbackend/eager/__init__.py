"""The Array API standard at once: each function of `xbackend` on arrays that live on a backend's device, op by op."""
